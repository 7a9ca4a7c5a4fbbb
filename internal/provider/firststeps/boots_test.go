package firststeps_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// boots gives a VM its first boot's key, as the page about that says. There is no image whose guest would read it.
func (u *user) boots(t *testing.T) {
	t.Helper()
	dir := u.directory(t, "boot")
	u.write(t, "boot/main.tf", provided+blocksOf(t, "first-boot.md")[0]+`
resource "virtfleet_storage_pool" "vms" {
  name   = "vms"
  type   = "dir"
  target = { path = "/srv/vms" }
}
`, 0o644)
	u.write(t, "boot/this_override.tf", `
resource "virtfleet_virtual_machine" "web" {
  run_strategy = "Halted"
  disks        = { root = { pool = virtfleet_storage_pool.vms.name, size = "1Mi" } }
}
`, 0o644)
	u.does(t, dir, initialise, "")
	const variable = ` -var "ssh_public_key=$(cat ~/.ssh/id_ed25519.pub)"`
	u.prints(t, dir, apply+variable, yes)
	key, err := os.ReadFile(filepath.Join(u.home, ".ssh/id_ed25519.pub"))
	if err != nil {
		t.Fatal(err)
	}
	media := ""
	for _, h := range u.hosts {
		files, err := filepath.Glob(h.Path("/srv/vms/*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			media += string(content)
		}
	}
	if !strings.Contains(media, strings.Fields(string(key))[1]) {
		t.Error("no file of the VM has the key")
	}
	if said := u.does(t, dir, plan+variable, ""); !strings.Contains(said, "No changes.") {
		t.Errorf("after the apply:\n%s", said)
	}
	u.does(t, dir, "terraform destroy -auto-approve"+variable, "")
}
