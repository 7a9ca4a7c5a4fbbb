package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// dependencies maps a module's file to the files it needs, as depmod wrote them.
type dependencies map[string][]string

func readDependencies(file string) (dependencies, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the modules' dependencies: %w", err)
	}
	d := dependencies{}
	for line := range strings.Lines(string(data)) {
		module, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			d[module] = strings.Fields(needs)
		}
	}
	return d, nil
}

// find returns the file of a module. In names "-" and "_" are the same.
func (d dependencies) find(name string) (string, bool) {
	for file := range d {
		base := strings.TrimSuffix(filepath.Base(file), ".ko")
		if strings.ReplaceAll(base, "-", "_") == name {
			return file, true
		}
	}
	return "", false
}

// order returns the module and what it needs, in the order in which to load them.
func (d dependencies) order(file string) []string {
	var order []string
	for _, needed := range d[file] {
		order = appendNew(order, d.order(needed)...)
	}
	return appendNew(order, file)
}

func appendNew(list []string, more ...string) []string {
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}
