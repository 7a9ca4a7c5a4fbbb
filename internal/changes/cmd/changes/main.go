// Command changes writes the guide "What a change does" to the folder that it is given.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/changes"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: changes <folder>")
	}
	file := filepath.Join(os.Args[1], changes.File)
	if err := os.WriteFile(file, []byte(changes.Markdown()), 0o644); err != nil { //nolint:gosec // A page of the docs.
		log.Fatal(err)
	}
}
