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
	for _, path := range paths {
		name := path[strings.LastIndex(path, ".")+1:]
		if !regexp.MustCompile(`\b` + name + `\s*= `).MatchString(all.String()) {
			t.Errorf("no example has %s", path)
		}
	}
}
