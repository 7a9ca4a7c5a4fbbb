// Command faults writes the guides about faults to the folder that it is given.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/faults"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: faults <folder>")
	}
	for _, page := range faults.Pages {
		text, err := page.Markdown()
		if err != nil {
			log.Fatal(err)
		}
		file := filepath.Join(os.Args[1], page.File)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // A page of the docs.
			log.Fatal(err)
		}
	}
}
