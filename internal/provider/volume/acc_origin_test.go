package volume_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_unknownOrigin: no volume is deleted because the id of its image or volume is known after apply. It
// stays if the id is the same then. If it is another one, the apply fails, and the next plan shows the replacement.
func TestAccVolume_unknownOrigin(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	file := filepath.Join(t.TempDir(), "base.img")
	write := func(text string) {
		if err := os.WriteFile(file, bytes.Repeat([]byte(text), 1<<18), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := acctest.OneHost(l) + pool(name)
	config := func(source, golden string) string {
		return base + fmt.Sprintf(`
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.this.name
  source = { file = %[1]q, %[2]s }
}

resource "virtfleet_volume" "overlay" {
  name  = "overlay"
  pool  = virtfleet_storage_pool.this.name
  image = virtfleet_image.base.id
}

resource "virtfleet_volume" "golden" {
  name = "golden"
  pool = virtfleet_storage_pool.this.name
  size = "8Mi"
  %[3]s
}

resource "virtfleet_volume" "copy" {
  name    = "copy"
  pool    = virtfleet_storage_pool.this.name
  copy_of = virtfleet_volume.golden.id
}
`, file, source, golden)
	}
	inode := func(volume string) string { return l.Run(t, "kvm1", "stat", "-c", "%i %W", at+"/"+volume) }
	stays := func(volume, was string) {
		t.Helper()
		if is := inode(volume); is != was {
			t.Errorf("volume %s is another file: %s, was %s", volume, is, was)
		}
	}
	says := func(out string, wants ...string) {
		t.Helper()
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("Terraform doesn't say %q in:\n%s", want, out)
			}
		}
	}
	c := acctest.NewCLI(t)
	empty := func() {
		t.Helper()
		if out, empty := c.Empty(t); !empty {
			t.Errorf("the plan should be empty:\n%s", out)
		}
	}
	write("one ")
	c.Config(t, config("", ""))
	c.Run(t, "apply")
	overlay, copied := inode("overlay"), inode("copy")

	// A fresh checkout of the same file.
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, later, later); err != nil {
		t.Fatal(err)
	}
	empty()

	// The image's id becomes unknown, and is the same. The golden volume is replaced.
	checksum := fmt.Sprintf("checksum = \"sha256:%x\"", sha256.Sum256(bytes.Repeat([]byte("one "), 1<<18)))
	c.Config(t, config(checksum, `preallocation = "metadata"`))
	says(c.Run(t, "apply"), "Volume may have to be created again")
	stays("overlay", overlay)
	stays("copy", copied)
	empty()

	// Other content: what the plan couldn't show isn't done.
	write("two ")
	c.Config(t, config("", `preallocation = "metadata"`))
	says(c.Fail(t, "apply"), "Volume would be created again", "Nothing was removed")
	stays("overlay", overlay)
	actions := c.Actions(t)
	if got := actions["virtfleet_volume.overlay"]; got != "delete create" {
		t.Errorf("the next plan does %q with the overlay, of %v", got, actions)
	}
	c.Run(t, "apply")
	if inode("overlay") == overlay {
		t.Error("the overlay is still based on the former content")
	}
	c.Run(t, "apply") // It removes the former copy of the image, which nothing is based on now.
	empty()

	// An image of another name is another image: the old one can't go before its overlay.
	c.Config(t, strings.Replace(config("", `preallocation = "metadata"`), `"base"
  pool`, `"other"
  pool`, 1))
	if got := c.Actions(t)["virtfleet_volume.overlay"]; got != "delete create" {
		t.Errorf("with another image, the plan does %q with the overlay", got)
	}
	c.Run(t, "apply")
	empty()
	c.Run(t, "destroy")
	l.Run(t, "kvm1", "rmdir", at)
}
