package firststeps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is the text of a file of the repository, with single blanks.
func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// TestFrontPage_leadsToEveryGuide: the front page links each guide.
func TestFrontPage_leadsToEveryGuide(t *testing.T) {
	t.Parallel()
	guides, err := filepath.Glob(filepath.Join(root, "templates/guides/*.md"))
	if err != nil || len(guides) == 0 {
		t.Fatal(err)
	}
	front := page(t, "templates/index.md.tmpl")
	for _, guide := range guides {
		if link := "(guides/" + filepath.Base(guide) + ")"; !strings.Contains(front, link) {
			t.Errorf("the front page has no link %s", link)
		}
	}
}

// TestFrontPage_saysWhatItNeeds: the front page, the README and the first guide name the version of Terraform that the
// examples ask for, the library that a container gets, and one version of libvirt. The front page names the ports that
// a migration tries.
func TestFrontPage_saysWhatItNeeds(t *testing.T) {
	t.Parallel()
	module := page(t, "examples/modules/vm/main.tf")
	asked := regexp.MustCompile(`required_version = ">= ([\d.]+)"`).FindStringSubmatch(module)
	library := regexp.MustCompile(` (libvirt0) `).FindStringSubmatch(page(t, ".ci/Dockerfile"))
	oldest := regexp.MustCompile(`libvirt [\d.]+ or later`).FindString(page(t, "templates/index.md.tmpl"))
	if asked == nil || library == nil || oldest == "" {
		t.Fatal(asked, library, oldest)
	}
	for _, name := range []string{"templates/index.md.tmpl", "README.md", "templates/guides/quick-start.md"} {
		for _, need := range []string{"Terraform " + asked[1] + " or later", "`" + library[1] + "`", oldest} {
			if !strings.Contains(page(t, name), need) {
				t.Errorf("%s doesn't say %q", name, need)
			}
		}
	}
	last := constant(t, filepath.Join(root, "internal/fleet/migration/transport.go"), "probedPort")
	if ports := "22/tcp to each host; 49152 to " + last + "/tcp between hosts"; last == "" ||
		!strings.Contains(page(t, "templates/index.md.tmpl"), ports) {
		t.Errorf("the front page doesn't say %q", ports)
	}
}

// TestConditions_saysEveryStatus: the page of the data source lists every status that a VM can have.
func TestConditions_saysEveryStatus(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal/fleet/status/phase.go"), nil,
		parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(page(t, "docs/data-sources/conditions.md"), "- `status` (String) Status of the VM")
	text, _, ended := strings.Cut(text, " - `")
	if !found || !ended {
		t.Fatal("the page has no attribute status")
	}
	statuses := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, "Status") || len(spec.Values) != 1 {
			return true
		}
		value := joined(spec.Values[0])
		if statuses++; !strings.Contains(text, "`"+value+"`") {
			t.Errorf("the page doesn't say %q: %s", value, text)
		}
		return true
	})
	if statuses < 8 {
		t.Errorf("only %d statuses found", statuses)
	}
}

// TestDocumentation_saysWhatIsWritten: the page about what is written to hosts names every kind of secret that the
// provider keeps there, its metadata, and the aliases of the devices that have keys.
func TestDocumentation_saysWhatIsWritten(t *testing.T) {
	t.Parallel()
	said, kinds := page(t, "templates/guides/written-to-hosts.md"), map[string]bool{}
	written := regexp.MustCompile(`^(virtfleet:[a-z-]+:?|urn:virtfleet:\d+|ua-(disk|net)-)$`)
	for text := range strings.Lines(literals(t)) {
		if text = strings.TrimSpace(text); written.MatchString(text) {
			kinds[text] = true
		}
	}
	for text := range kinds {
		if !strings.Contains(said, "`"+text) {
			t.Errorf("the page doesn't name %s", text)
		}
	}
	if len(kinds) < 7 {
		t.Errorf("only %v found", kinds)
	}
}
