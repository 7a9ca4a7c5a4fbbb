package domain

import (
	"strings"
	"testing"
)

// TestDefinition_removeBacking: only the named disks lose the images that the definition lists, and an empty element,
// which says that there is none, stays.
func TestDefinition_removeBacking(t *testing.T) {
	t.Parallel()
	d, err := Parse(`<domain><devices>
  <disk type='file'><target dev='vda'/>
  <backingStore type='file'><source file='/a'/><backingStore/></backingStore></disk>
  <disk type='file'><target dev='vdb'/><backingStore type='file'><source file='/b'/></backingStore></disk>
  <disk type='file'><target dev='vdc'/><backingStore/></disk>
</devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	first, second := d.RemoveBacking([]string{"vda", "vdc"}), d.RemoveBacking([]string{"vda", "vdc"})
	text, err := d.XML()
	if err != nil || !first || second || strings.Contains(text, "'/a'") || !strings.Contains(text, "/b") ||
		strings.Count(text, "<backingStore/>") != 1 {
		t.Errorf("%v, %v, %v: %s", first, second, err, text)
	}
}
