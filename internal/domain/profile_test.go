package domain

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	profileGuide   = "../../templates/guides/profiles.md"
	profileHeading = "## What each profile sets\n"
	// hypervPaths begin the attributes that a profile sets all or none of.
	hypervPaths = "platform.hyperv."
)

// TestProfiles_guide: the guide lists what the profiles set. -update writes it.
func TestProfiles_guide(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(profileGuide)
	if err != nil {
		t.Fatal(err)
	}
	before, listed, found := strings.Cut(string(data), profileHeading)
	if !found {
		t.Fatalf("the guide has no heading %q", profileHeading)
	}
	want := listProfiles()
	if *update {
		if err := os.WriteFile(profileGuide, []byte(before+profileHeading+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if listed != want {
		t.Error("the guide isn't what the profiles set: go test ./internal/domain -run Profiles_guide -update")
	}
}

// listProfiles is the profiles as two tables: what they are for, and each attribute with its value in each profile.
func listProfiles() string {
	var b strings.Builder
	b.WriteString("\n| profile | for |\n| --- | --- |\n")
	var paths []string
	for _, p := range Profiles {
		x86 := ""
		if p.X86 {
			x86 = " x86 only."
		}
		fmt.Fprintf(&b, "| `%s` | %s%s |\n", p.Name, p.Guests, x86)
		for _, s := range p.Settings {
			if !slices.Contains(paths, s.Path) {
				paths = append(paths, s.Path)
			}
		}
	}
	fmt.Fprintf(&b, "\n| attribute | %s |\n%s|\n", strings.Join(ProfileNames(), " | "),
		strings.Repeat("| --- ", len(Profiles)+1))
	slices.Sort(paths)
	// By condition and attribute: the values that a profile doesn't set then.
	unless := map[string]map[string]map[any]bool{}
	values := map[string]map[any]bool{}
	note := func(condition, path string, value any) {
		if unless[condition] == nil {
			unless[condition] = map[string]map[any]bool{}
		}
		if unless[condition][path] == nil {
			unless[condition][path] = map[any]bool{}
		}
		unless[condition][path][value] = true
	}
	for _, path := range paths {
		fmt.Fprintf(&b, "| `%s` |", path)
		for _, p := range Profiles {
			i := slices.IndexFunc(p.Settings, func(s Setting) bool { return s.Path == path })
			if i < 0 {
				b.WriteString(" |")
				continue
			}
			fmt.Fprintf(&b, " %v |", p.Settings[i].Value)
			if values[path] == nil {
				values[path] = map[any]bool{}
			}
			values[path][p.Settings[i].Value] = true
			for at, want := range p.Settings[i].With {
				note(fmt.Sprintf("`%s`, other than `%s`", at, want), path, p.Settings[i].Value)
			}
			for _, at := range p.Settings[i].Unless {
				note("`"+at+"`", path, p.Settings[i].Value)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| if you set | the profile doesn't set |\n| --- | --- |\n")
	for _, condition := range sortedKeys(unless) {
		var not []string
		for _, path := range sortedKeys(unless[condition]) {
			switch {
			case strings.HasPrefix(path, hypervPaths):
				path = hypervPaths + "*"
			case len(unless[condition][path]) < len(values[path]):
				for value := range unless[condition][path] {
					path = fmt.Sprintf("%s = %v", path, value)
				}
			}
			if path = "`" + path + "`"; !slices.Contains(not, path) {
				not = append(not, path)
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", condition, strings.Join(not, ", "))
	}
	return b.String()
}
