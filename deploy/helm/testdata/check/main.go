// Command check lints a chart in a folder, or loads one from an archive, renders it with the values of a file, decodes each object strictly into its type of
// Kubernetes, and holds pods against the standard "restricted". It prints the objects, and writes the file of the
// proxy. Its module is no part of the workspace: nothing else needs Helm and Kubernetes.
package main

import (
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: check CHART VALUES PROXY-FILE")
	}
	if err := check(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func check(path, file, proxyFile string) error {
	values, err := common.ReadValuesFile(file)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(path, ".tgz") { // lint reads folders
		for _, message := range lint.RunAll(path, values, "default").Messages {
			if !strings.Contains(message.Error(), "icon is recommended") {
				return fmt.Errorf("lint: %w", message)
			}
		}
	}
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return err
	}
	release := common.ReleaseOptions{Name: "pay", Namespace: "shop", IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		for object := range strings.SplitSeq("\n"+rendered[name], "\n---\n") {
			object = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(object), "---"))
			if object == "" || strings.HasSuffix(name, ".txt") {
				continue
			}
			if err := checkObject(object, proxyFile); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, object)
			}
			fmt.Printf("---\n%s\n", object)
		}
	}
	return nil
}

func checkObject(text, proxyFile string) error {
	if strings.Contains(text, "apiVersion: monitoring.coreos.com/") {
		return nil // a type of the operator of Prometheus
	}
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	decoded, _, err := codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
	if err != nil {
		return err
	}
	switch object := decoded.(type) {
	case *corev1.ConfigMap:
		if file, ok := object.Data["proxy.yaml"]; ok {
			return os.WriteFile(proxyFile, []byte(file), 0o600)
		}
	case *appsv1.Deployment:
		evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
		if err != nil {
			return err
		}
		restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
		pod := object.Spec.Template
		results := evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)
		if found := policy.AggregateCheckResults(results); !found.Allowed {
			return fmt.Errorf("not restricted: %s", found.ForbiddenDetail())
		}
	}
	return nil
}
