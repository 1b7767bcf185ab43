// Renders a Go text/template with the data on standard input, as NVSentinel's validation controller does.
package main

import (
	"encoding/json"
	"log"
	"os"
	"strconv"
	"text/template"
)

func main() {
	var data map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&data); err != nil {
		log.Fatal(err)
	}
	parsed, err := template.New("job").Funcs(template.FuncMap{"quote": strconv.Quote}).Option("missingkey=error").Parse(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := parsed.Execute(os.Stdout, data); err != nil {
		log.Fatal(err)
	}
}
