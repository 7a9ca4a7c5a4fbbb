package lab

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRequirements_areOnThePages: who builds the provider by hand reads which packages and which Go that needs.
func TestRequirements_areOnThePages(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))
	if version == nil {
		t.Fatal("go.mod has no version of Go")
	}
	for _, page := range []string{"../../README.md", "../../templates/guides/quick-start.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range forBuild {
			if !strings.Contains(string(text), "`"+r.pkg+"`") {
				t.Errorf("%s doesn't name the package %s", page, r.pkg)
			}
		}
		if !strings.Contains(string(text), "Go "+version[1]) {
			t.Errorf("%s doesn't say that building needs Go %s", page, version[1])
		}
	}
}
