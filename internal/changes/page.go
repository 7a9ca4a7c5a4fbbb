package changes

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// File is the guide's name.
const File = "what-a-change-does.md"

var (
	//go:embed begin.md
	begin string
	//go:embed end.md
	end string
)

// Markdown is the guide's text.
func Markdown() string {
	effects := domain.Effects()
	var b strings.Builder
	b.WriteString(begin)
	b.WriteString("<!-- Generated from internal/domain by make generate. -->\n\n## While the VM runs\n\n")
	b.WriteString("| attribute | what happens | a restart, if |\n| --- | --- | --- |\n")
	for _, r := range table(effects) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.names(), r.happens, r.restarts)
	}
	b.WriteString("\nA larger `size` of a disk with `pool` grows it while the VM runs.\n\n## At a restart\n\n" +
		"Every other attribute of the definition requires a restart. The plan says why.\n")
	b.WriteString("\n## A new VM\n\n| attribute | why |\n| --- | --- |\n")
	for _, e := range effects {
		if e.Replace {
			fmt.Fprintf(&b, "| %s | %s |\n", name(e.Path), e.Why)
		}
	}
	b.WriteString("\nAnother version of the same machine type only requires a restart. The new VM keeps the name " +
		"and its disks that have no `pool`. **Disks with `pool` are created again, without their data.**\n\n")
	b.WriteString(end)
	return b.String()
}

// most is how many attributes a line names.
const most = 5

// row is a line of the table: attributes of one parent with the same effects.
type row struct {
	paths             []string
	happens, restarts string
	// whole says that these are all attributes of their parent.
	whole bool
}

// table has the attributes that a running VM takes, in some cases or all. That another key alone changes nothing, the
// beginning of the guide tells of all devices.
func table(effects []domain.Effect) []row {
	live, cold := map[string][]string{}, map[string][]string{}
	for _, e := range effects {
		switch {
		case e.Renamed || e.Replace:
		case e.Live:
			live[e.Path] = append(live[e.Path], e.Why)
		default:
			cold[e.Path] = append(cold[e.Path], e.Why)
		}
	}
	var rows []row
	for _, path := range slices.Sorted(maps.Keys(live)) {
		r := row{paths: []string{path}, happens: sentences(live[path]), restarts: sentences(cold[path])}
		same := slices.IndexFunc(rows, func(other row) bool {
			return other.happens == r.happens && other.restarts == r.restarts && parent(other.paths[0]) == parent(path)
		})
		if same < 0 {
			rows = append(rows, r)
		} else {
			rows[same].paths = append(rows[same].paths, path)
		}
	}
	for i, r := range rows {
		rows[i].whole = len(r.paths) > 1 && !slices.ContainsFunc(effects, func(e domain.Effect) bool {
			return parent(e.Path) == parent(r.paths[0]) && !slices.Contains(r.paths, e.Path)
		})
	}
	return rows
}

// sentences joins them. Of a device that can be plugged in and unplugged, one sentence says both.
func sentences(all []string) string {
	all = slices.Compact(slices.Sorted(slices.Values(all)))
	for i, s := range all {
		device, plugged := strings.CutSuffix(s, " is plugged into the running VM.")
		other := slices.Index(all, device+" is unplugged from the running VM.")
		if plugged && other >= 0 {
			all[i] = device + " is plugged in or unplugged."
			all = slices.Delete(all, other, other+1)
			break
		}
	}
	return strings.Join(all, " ")
}

// parent returns what a path is part of. The parent of a device with a key is that of all such devices.
func parent(path string) string {
	path = strings.TrimSuffix(path, ".*")
	return path[:max(strings.LastIndex(path, "."), 0)]
}

// names are the attributes of a line; of many and of all, what they have in common.
func (r row) names() string {
	if r.whole || len(r.paths) > most {
		return name(parent(r.paths[0]))
	}
	all := make([]string, len(r.paths))
	for i, path := range r.paths {
		all[i] = name(path)
	}
	return strings.Join(all, ", ")
}

// name is a path as users write it.
func name(path string) string {
	return "`" + strings.NewReplacer(".*", ".<key>").Replace(path) + "`"
}
