// Command ci-lint judges files for Argo Workflows and Tekton as these systems' own code does when it takes them.
//
//	ci-lint argo FILE...      what `argo lint --offline --strict` asks: strict decoding, then Argo's validation
//	ci-lint tekton FILE...    what Tekton's admission webhook asks: strict decoding, defaults, then Tekton's validation
//
// Exit code 1 and one line for each mistake. A file without an object of the system is a mistake too.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/argoproj/argo-workflows/v3/pkg/apis/workflow"
	argo "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/workflow/common"
	"github.com/argoproj/argo-workflows/v3/workflow/validate"
	tekton "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"knative.dev/pkg/apis"
	"sigs.k8s.io/yaml"
)

var errNothing = errors.New("no object of this system")

func main() {
	lint := map[string]func([]document) error{"argo": lintArgo, "tekton": lintTekton}
	if len(os.Args) < 3 || lint[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "expected: ci-lint argo|tekton FILE...")
		os.Exit(4)
	}
	code := 0
	for _, file := range os.Args[2:] {
		text, err := os.ReadFile(file)
		var documents []document
		if err == nil {
			documents, err = documentsOf(text)
		}
		if err == nil {
			err = lint[os.Args[1]](documents)
		}
		if err != nil {
			fmt.Printf("%s: %v\n", file, err)
			code = 1
		}
	}
	os.Exit(code)
}

type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	text       []byte
}

func documentsOf(text []byte) ([]document, error) {
	var found []document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		one, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		head := document{text: one}
		if err := yaml.Unmarshal(one, &head); err != nil {
			return nil, err
		}
		found = append(found, head)
	}
}

// What belongs to Kubernetes itself, a Role for example, is not judged: an API server does that.
func lintArgo(documents []document) error {
	options := validate.ValidateOpts{Lint: true}
	judged := errNothing
	for _, one := range documents {
		if !strings.HasPrefix(one.APIVersion, workflow.Group+"/") {
			continue
		}
		for _, parsed := range common.ParseObjects(one.text, true) {
			if parsed.Err != nil {
				return fmt.Errorf("%s: %w", one.Kind, parsed.Err)
			}
			err := fmt.Errorf("of no kind that is judged here")
			switch object := parsed.Object.(type) {
			case *argo.WorkflowTemplate:
				err = validate.ValidateWorkflowTemplate(nil, nil, object, nil, options)
			case *argo.Workflow:
				err = validate.ValidateWorkflow(nil, nil, object, nil, options)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", one.Kind, err)
			}
			judged = nil
		}
	}
	return judged
}

type tektonObject interface {
	metav1.Object
	apis.Defaultable
	apis.Validatable
}

func lintTekton(documents []document) error {
	judged := errNothing
	for _, one := range documents {
		kinds := map[string]tektonObject{"Task": &tekton.Task{}, "Pipeline": &tekton.Pipeline{}, "PipelineRun": &tekton.PipelineRun{}}
		object := kinds[one.Kind]
		if object == nil || one.APIVersion != tekton.SchemeGroupVersion.String() {
			return fmt.Errorf("%s %s: of no kind that is judged here", one.APIVersion, one.Kind)
		}
		if err := yaml.UnmarshalStrict(one.text, object); err != nil {
			return fmt.Errorf("%s: %w", one.Kind, err)
		}
		if object.GetName() == "" && object.GetGenerateName() != "" {
			object.SetName(object.GetGenerateName() + "x") // as the API server does before it asks the webhook
		}
		object.SetDefaults(context.Background())
		if err := object.Validate(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", one.Kind, err)
		}
		judged = nil
	}
	return judged
}
