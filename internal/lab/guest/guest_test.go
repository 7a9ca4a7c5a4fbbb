package guest

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOrder_putsWhatIsNeededFirst(t *testing.T) {
	t.Parallel()
	d := dependencies{
		"net/virtio_net.ko":   {"net/net_failover.ko", "virtio/virtio.ko"},
		"net/net_failover.ko": {"net/failover.ko"},
		"net/failover.ko":     nil,
		"virtio/virtio.ko":    nil,
	}
	file, ok := d.find("virtio_net")
	if !ok {
		t.Fatal("the module isn't found")
	}
	want := []string{"net/failover.ko", "net/net_failover.ko", "virtio/virtio.ko", "net/virtio_net.ko"}
	if got := d.order(file); !slices.Equal(got, want) {
		t.Errorf("order = %v, want %v", got, want)
	}
}

// lacks ends a test whose machine lacks something. Where acceptance tests are asked for, all was installed before,
// and a gap is a failure.
func lacks(t *testing.T, what error) {
	t.Helper()
	if os.Getenv("TF_ACC") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func TestArchive_isReadByCpio(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("busybox"); err != nil {
		lacks(t, err)
	}
	a := newArchive()
	a.file("etc/deep/file", 0o640, []byte("odd"))
	a.link("bin/link", "target")
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "busybox", "cpio", "-i")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(a.bytes())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, "etc/deep/file"))
	if err != nil || string(content) != "odd" {
		t.Errorf("the file has %q (%v)", content, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "bin/link")); err != nil || target != "target" {
		t.Errorf("the link points to %q (%v)", target, err)
	}
}

func TestInit_isAValidScript(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"init.sh", "udhcpc.script", "shutdown.sh"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-n", script).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "" {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
}

func TestUncompressed_hasAnEntryForQEMU(t *testing.T) {
	t.Parallel()
	path, _, err := findKernel()
	if err == nil {
		_, err = exec.LookPath("lz4")
	}
	if err != nil {
		lacks(t, err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := uncompressed(image)
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil {
		t.Fatal(err)
	}
	notes, err := file.Section(".notes").Data()
	// XEN_ELFNOTE_PHYS32_ENTRY of the owner Xen, see Xen's elfnote.h.
	entry := []byte{4, 0, 0, 0, 8, 0, 0, 0, 18, 0, 0, 0, 'X', 'e', 'n', 0}
	if err != nil || !bytes.Contains(notes, entry) {
		t.Errorf("%v: no PVH entry in %x", err, notes)
	}
	for what, damaged := range map[string][]byte{
		"an ELF file": kernel, "half of it": image[:len(image)/2], "nothing": nil,
	} {
		if _, err := uncompressed(damaged); err == nil {
			t.Errorf("%s was taken for a kernel's image", what)
		}
	}
}
