package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// maxDocument bounds an OpenAPI document.
const maxDocument = 64 << 20

// FromOpenAPI makes a draft of an operation of an OpenAPI 3 document, which is JSON or YAML. The operation is named
// by its operationId, or as in "POST /payments".
func FromOpenAPI(source []byte, operation string) (*Draft, error) {
	doc, err := newOpenAPI(source)
	if err != nil {
		return nil, err
	}
	op, err := doc.find(operation)
	if err != nil {
		return nil, err
	}
	return doc.draft(op)
}

// newOpenAPI reads a document.
func newOpenAPI(source []byte) (*openAPI, error) {
	root, err := document(source)
	if err != nil {
		return nil, err
	}
	if version, _ := root["openapi"].(string); !strings.HasPrefix(version, "3.") {
		return nil, errors.New("this is not an OpenAPI 3 document: it has no openapi: 3")
	}
	return &openAPI{root: root, preparing: map[string]bool{}}, nil
}

// document parses an OpenAPI document in JSON or YAML.
func document(source []byte) (root map[string]any, err error) {
	if len(source) > maxDocument {
		return nil, fmt.Errorf("the document has %d bytes; it may have at most %d", len(source), maxDocument)
	}
	defer func() {
		if recover() != nil { // the YAML library gave up on something that is no YAML
			root, err = nil, errors.New("the document is neither JSON nor YAML")
		}
	}()
	if text := bytes.TrimSpace(source); bytes.HasPrefix(text, []byte("{")) && json.Valid(text) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&root)
	} else if yamlfile.IsTooDeep(source) {
		err = errors.New("it has too many lists and mappings inside of each other")
	} else {
		err = yaml.Unmarshal(source, &root)
	}
	if err != nil {
		return nil, fmt.Errorf("the document cannot be read: %w", err)
	}
	if root == nil {
		return nil, errors.New("the document is empty")
	}
	return root, nil
}

// openAPI is a document. Its methods take what is not there for empty.
type openAPI struct {
	root  map[string]any
	steps int    // that schemas have been followed
	about string // the operation, in a word or two
	away  string // what the document refers to outside of itself

	preparing map[string]bool // operations that are being made steps, since they may need each other
	prepared  int             // parameters that have been followed
}

// operation is one of a document.
type operation struct {
	method, path string
	item, self   map[string]any
}

// id returns the operationId.
func (o operation) id() string { return text(o.self["operationId"]) }

// name returns the method and path, which name an operation without operationId.
func (o operation) name() string { return o.method + " " + o.path }

// find returns the operation of a name; without a name it is inferred if only one can create a resource.
func (a *openAPI) find(name string) (operation, error) {
	all := a.operations()
	for _, o := range all {
		if name != "" && (o.id() == name || strings.EqualFold(o.name(), name)) {
			return o, nil
		}
	}
	if name == "" && len(all) == 1 {
		return all[0], nil
	}
	return operation{}, unknown(name, all)
}

// operations returns the operations that may create something, by path.
func (a *openAPI) operations() (all []operation) {
	paths := object(a.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := a.resolve(paths[path])
		for _, method := range []string{"post", "put", "patch", "delete"} {
			if self := object(item[method]); self != nil {
				all = append(all, operation{strings.ToUpper(method), path, item, self})
			}
		}
	}
	return all
}

// shownOperations is how many are listed.
const shownOperations = 20

// unknown returns an error that lists the operations to choose from.
func unknown(name string, all []operation) error {
	var ids, lines []string
	for _, o := range all {
		ids = append(ids, o.id())
		if len(lines) < shownOperations {
			lines = append(lines, strings.TrimSpace(o.name()+"  "+o.id()))
		}
	}
	if more := len(all) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	if len(all) == 0 {
		return errors.New("the document has no operation that creates something")
	}
	problem := "choose an operation: --operation ID"
	if name != "" {
		problem = fmt.Sprintf("the document has no operation %q that creates something", name)
	}
	if near := yamlfile.Nearest(name, ids); near != "" {
		problem += "; did you mean " + near + "?"
	}
	return fmt.Errorf("%s\n  %s", problem, strings.Join(lines, "\n  "))
}
