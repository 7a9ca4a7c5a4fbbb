// Command faults writes the guide "Fault matrix" to the file that it is given.
package main

import (
	"log"
	"os"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/faults"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: faults <file>")
	}
	if err := os.WriteFile(os.Args[1], []byte(faults.Page()), 0o644); err != nil { //nolint:gosec // A page of the docs.
		log.Fatal(err)
	}
}
