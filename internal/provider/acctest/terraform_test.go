package acctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

// TestShortcuts: a plan that the testing framework asks for once isn't printed. One that it asks for again is, because
// the test fails then and shows it; and so is one that no plan of the framework made.
func TestShortcuts(t *testing.T) {
	NeedsTerraform(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.tf"), "output \"greeting\" {\n  value = \"hello\"\n}\n", 0o600)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Getenv(terraformPath), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	file := filepath.Join(dir, "tfplan")
	for range 2 {
		run("plan", "-no-color", "-out=tfplan")
		if out := run("show", "-no-color", file); out != "" {
			t.Errorf("the plan for the log was printed:\n%s", out)
		}
		if out := run("show", "-json", "-no-color", file); !strings.Contains(out, `"hello"`) {
			t.Errorf("the plan as JSON is without the output:\n%s", out)
		}
		for range 2 {
			if out := run("show", "-no-color", file); !strings.Contains(out, `greeting = "hello"`) {
				t.Errorf("the plan for a message is without the output:\n%s", out)
			}
		}
	}
	other := filepath.Join(dir, "other")
	run("plan", "-out=other")
	if out := run("show", "-no-color", other); !strings.Contains(out, `greeting = "hello"`) {
		t.Errorf("the plan is without the output:\n%s", out)
	}
	for range 2 {
		if out := run("version", "-json"); !strings.Contains(out, `"terraform_version"`) {
			t.Errorf("the version is %q", out)
		}
	}
}
