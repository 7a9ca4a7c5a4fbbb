package inventory

import (
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// NVRAMFiles returns the files of its host in which the domain's firmware may keep its variables. All readers share
// them: don't change them.
func (e *Entry) NVRAMFiles() []string {
	e.nvramOnce.Do(func() {
		p := e.Parse()
		for _, definition := range []*domain.Definition{p.Persistent, p.Live} {
			if definition == nil {
				continue
			}

			vm := migration.VM{UUID: e.UUID, Name: e.Name, Mobility: definition.Mobility()}
			for _, file := range vm.NVRAMFiles() {
				e.nvramFiles = append(e.nvramFiles, path.Clean(file))
			}
		}
	})

	return e.nvramFiles
}

// WithNVRAM returns a domain of the view, other than the one with that UUID, whose firmware may keep its variables in
// one of the files, and that file. It returns nil if there is none.
func (v *View) WithNVRAM(files []string, but string) (*Entry, string) {
	if len(files) == 0 {
		return nil, ""
	}

	for uuid, e := range v.Domains {
		if uuid == but {
			continue
		}

		for _, file := range files {
			if slices.Contains(e.NVRAMFiles(), path.Clean(file)) {
				return e, file
			}
		}
	}

	return nil, ""
}
