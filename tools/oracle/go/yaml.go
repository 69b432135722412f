package main

import (
	"bufio"
	"encoding/json"
	"os"

	"sigs.k8s.io/yaml"
)

// Reads YAML texts, one JSON string a line, and writes {"yaml":TEXT,"value":...} or {"yaml":TEXT,"error":...}.
func answerYAML() error {
	in := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var text string
		if err := json.Unmarshal(in.Bytes(), &text); err != nil {
			return err
		}
		line := map[string]any{"yaml": text}
		if value, err := yaml.YAMLToJSON([]byte(text)); err != nil {
			line["error"] = err.Error()
		} else {
			line["value"] = json.RawMessage(value)
		}
		encoded, err := json.Marshal(line)
		if err != nil {
			return err
		}
		out.Write(encoded)
		out.WriteByte('\n')
	}
	return in.Err()
}
