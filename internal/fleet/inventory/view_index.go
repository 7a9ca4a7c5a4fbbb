package inventory

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// viewIndex finds domains of a view by name and by the names of their disk sources, and those with recorded copies. It
// is built when it is first needed, and never changed.
type viewIndex struct {
	once             sync.Once
	byName, bySource map[string][]*Entry
	withCopies       []*Entry
}

func (v *View) indexed() *viewIndex {
	v.index.once.Do(func() {
		v.index.byName, v.index.bySource = map[string][]*Entry{}, map[string][]*Entry{}

		for _, uuid := range slices.Sorted(maps.Keys(v.Domains)) {
			e := v.Domains[uuid]
			v.index.byName[e.Name] = append(v.index.byName[e.Name], e)

			if strings.Contains(e.PersistentXML, "copies>") { // the end of the record in the metadata
				v.index.withCopies = append(v.index.withCopies, e)
			}

			for _, document := range []string{e.LiveXML, e.PersistentXML} {
				for _, name := range domain.SourceNames(document) {
					if all := v.index.bySource[name]; len(all) == 0 || all[len(all)-1] != e {
						v.index.bySource[name] = append(all, e)
					}
				}
			}
		}
	})

	return v.index
}

// Named returns the domains of that name.
func (v *View) Named(name string) []*Entry { return v.indexed().byName[name] }

// WithCopies returns the domains whose definitions may record copies that moves made on other hosts.
func (v *View) WithCopies() []*Entry { return v.indexed().withCopies }

// Having returns the domains that use the disk, or an image in its backing chain.
func (v *View) Having(disk domain.DiskUse) []*Entry {
	i := v.indexed()
	all := slices.Clone(i.bySource[disk.Source.Name()])

	for _, b := range disk.Backing {
		for _, e := range i.bySource[b.Name()] {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}

	return all
}

// Using returns the names, by UUID, of the domains that have the file or device at the path as a disk or in a backing
// chain.
func (v *View) Using(file string) map[string]string {
	names := map[string]string{}

	for _, e := range v.indexed().bySource[path.Clean(file)] {
		names[e.UUID] = e.Name
	}

	return names
}

// Paths returns the absolute paths of the disk sources of the domains that are wanted, sorted.
func (v *View) Paths(wanted func(*Entry) bool) []string {
	var paths []string

	for name, entries := range v.indexed().bySource {
		if strings.HasPrefix(name, "/") && slices.ContainsFunc(entries, wanted) {
			paths = append(paths, name)
		}
	}

	slices.Sort(paths)

	return paths
}
