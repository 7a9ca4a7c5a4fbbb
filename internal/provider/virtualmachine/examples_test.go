package virtualmachine

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestExamples_everyKindOfDevice: whoever looks for a device or a group of attributes finds an example of it.
func TestExamples_everyKindOfDevice(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS("../../../examples"), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".tf" {
			return err
		}
		content, err := os.ReadFile(filepath.Join("../../../examples", name))
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, g := range domain.Groups {
		if strings.Contains(g.Path, ".") {
			paths = append(paths, g.Path)
		}
	}
	for _, f := range domain.Families {
		paths = append(paths, f.Path)
	}
	// Objects of disks, interfaces, CPU and memory: another thing of that name has other attributes.
	parts := map[string][]string{}
	collect := func(parent string, rows []domain.Attribute) {
		for _, a := range rows {
			if i := strings.LastIndex(a.Name, "."); i >= 0 {
				object := parent + "." + a.Name[:i]
				parts[object] = append(parts[object], a.Name[i+1:])
			}
		}
	}
	collect("disks", domain.DiskRows)
	collect("interfaces", domain.InterfaceRows)
	for _, g := range domain.Groups {
		if !strings.Contains(g.Path, ".") {
			collect(g.Path, g.Attributes)
		}
	}
	for _, known := range []string{
		"disks.io_tune", "interfaces.backend", "interfaces.driver", "interfaces.teaming", "memory.balloon", "memory.numatune",
	} {
		if parts[known] == nil {
			t.Errorf("%s isn't looked for", known)
		}
	}
	for object, names := range parts {
		pattern := `\b` + object[strings.LastIndex(object, ".")+1:] + `\s*= \{[^{}]*\b(` + strings.Join(names, "|") + `)\s*= `
		if !regexp.MustCompile(pattern).MatchString(all.String()) {
			t.Errorf("no example has %s", object)
		}
	}
	for _, path := range paths {
		name := path[strings.LastIndex(path, ".")+1:]
		if !regexp.MustCompile(`\b` + name + `\s*= `).MatchString(all.String()) {
			t.Errorf("no example has %s", path)
		}
	}
}
