// Answers of the Kubernetes libraries themselves, for the patches of src/json.
//
//	oracle schema    prints the table of src/json/strategic_types.cpp: which fields of which types merge, and how
//	oracle answer    reads cases, one JSON object a line, and writes each with the libraries' answers added
//	oracle yaml      reads YAML texts, one JSON string a line, and writes what kubectl makes of each
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

type testCase struct {
	Kind      string          `json:"kind"`
	From      json.RawMessage `json:"from"`
	To        json.RawMessage `json:"to"`
	Patch     json.RawMessage `json:"patch"`             // made at random, perhaps senseless
	Diff      json.RawMessage `json:"diff"`              // our strategic diff of from and to
	MergeDiff json.RawMessage `json:"merge_diff"`        // our merge diff
	JSONDiff  json.RawMessage `json:"json_diff"`         // our JSON patch
	JSONPatch json.RawMessage `json:"json_patch"`        // made at random
	Answers   map[string]any  `json:"answers,omitempty"` // by name; an error is {"error": sentence}
}

func answer(f func() ([]byte, error)) (result any) {
	defer func() {
		if p := recover(); p != nil {
			result = map[string]string{"error": fmt.Sprint("panic: ", p)}
		}
	}()
	out, err := f()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]any{"value": json.RawMessage(out)}
}

func applyJSON(document, patch []byte) ([]byte, error) {
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return p.Apply(document)
}

func answerCases() error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var c testCase
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			return err
		}
		object, ok := kinds()[c.Kind]
		if !ok {
			return fmt.Errorf("kind %q is not known", c.Kind)
		}
		c.Answers = map[string]any{}
		var theirs []byte
		c.Answers["their_diff"] = answer(func() ([]byte, error) {
			var err error
			theirs, err = strategicpatch.CreateTwoWayMergePatch(c.From, c.To, object)
			return theirs, err
		})
		if theirs != nil {
			c.Answers["their_diff_applied"] = answer(func() ([]byte, error) {
				return strategicpatch.StrategicMergePatch(c.From, theirs, object)
			})
		}
		if c.Diff != nil {
			c.Answers["diff_applied"] = answer(func() ([]byte, error) {
				return strategicpatch.StrategicMergePatch(c.From, c.Diff, object)
			})
		}
		c.Answers["patch_applied"] = answer(func() ([]byte, error) {
			return strategicpatch.StrategicMergePatch(c.From, c.Patch, object)
		})
		c.Answers["merge_diff_applied"] = answer(func() ([]byte, error) { return jsonpatch.MergePatch(c.From, c.MergeDiff) })
		c.Answers["merge_patch_applied"] = answer(func() ([]byte, error) { return jsonpatch.MergePatch(c.From, c.Patch) })
		c.Answers["json_diff_applied"] = answer(func() ([]byte, error) { return applyJSON(c.From, c.JSONDiff) })
		c.Answers["json_patch_applied"] = answer(func() ([]byte, error) { return applyJSON(c.From, c.JSONPatch) })
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	return in.Err()
}

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	var err error
	switch mode {
	case "schema":
		printSchema(os.Stdout)
	case "yaml":
		err = answerYAML()
	case "answer":
		err = answerCases()
	default:
		err = fmt.Errorf("usage: oracle schema|answer|yaml")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
