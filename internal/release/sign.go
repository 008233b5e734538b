package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// signersFile has the public keys with which releases are signed, for ssh-keygen.
const signersFile = "deploy/allowed_signers"

const sumsFile = "SHA256SUMS"

// sign signs the checksums in the folder with the key, and verifies the signature as users do. SSH signs, because
// ssh-keygen is on every Linux and macOS and comes with Windows, and verifies Ed25519 there; minisign has to be
// installed, and the openssl of macOS does not know Ed25519.
func (r *release) sign(ctx context.Context, folder string) error {
	_, err := command(ctx, folder, nil, "ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", r.key, sumsFile)
	if err != nil {
		return err
	}
	signers, err := filepath.Abs(filepath.Join(r.checkout, signersFile))
	if err != nil {
		return err
	}
	_, err = command(ctx, folder, nil, "sh", "-c",
		`ssh-keygen -Y verify -f "$0" -I release@retrysafe -n file -s `+sumsFile+`.sig <`+sumsFile, signers)
	return err
}

// checkKey returns an error if the key cannot sign, or if users could not verify its signature.
func (r *release) checkKey(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(r.checkout, signersFile)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; create it with the public half of the key, as RELEASING.md says", signersFile)
	}
	temp, err := os.MkdirTemp("", "retrysafe-sign-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := writeFile(filepath.Join(temp, sumsFile), nil); err != nil {
		return err
	}
	return r.sign(ctx, temp)
}
