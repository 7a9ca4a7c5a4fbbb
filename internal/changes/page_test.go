package changes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/changes"
)

// TestMarkdown_isUpToDate: the guide says what a plan does.
func TestMarkdown_isUpToDate(t *testing.T) {
	t.Parallel()
	is, err := os.ReadFile(filepath.Join("..", "..", "templates", "guides", changes.File))
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != changes.Markdown() {
		t.Errorf("%s isn't what the rules say: make generate", changes.File)
	}
}
