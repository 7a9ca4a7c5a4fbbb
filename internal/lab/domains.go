package lab

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// UnmigratableDevice is, below <domain>, a device that QEMU refuses to migrate and of which libvirt knows nothing.
const UnmigratableDevice = `<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>` +
	`<qemu:arg value='-object'/>` +
	`<qemu:arg value='memory-backend-file,id=lab,mem-path=/dev/shm/virtfleet-lab,size=1M,share=on'/>` +
	`<qemu:arg value='-device'/><qemu:arg value='ivshmem-plain,memdev=lab,master=off,bus=pcie.0,addr=0x10'/>` +
	`</qemu:commandline>`

// Define defines domains with one virsh, so that hundreds take a few seconds. It returns their names.
func (h *Host) Define(ctx context.Context, xmls ...string) ([]string, error) {
	dir, err := os.MkdirTemp(h.machine.dir, "define-")
	if err != nil {
		return nil, fmt.Errorf("defining domains on %s: %w", h.Name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var names, script []string
	for i, text := range xmls {
		var domain struct {
			Name string `xml:"name"`
		}
		if err := xml.Unmarshal([]byte(text), &domain); err != nil {
			return names, fmt.Errorf("defining domain %d on %s: %w", i, h.Name, err)
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.xml", i))
		if err := writeFile(file, text, 0o644); err != nil {
			return names, err
		}
		names = append(names, domain.Name)
		script = append(script, "define "+file)
	}
	if _, err := h.Virsh(ctx, strings.Join(script, "; ")); err != nil {
		return names, fmt.Errorf("defining domains: %w", err)
	}
	return names, nil
}

// Undefine removes domains with everything that libvirt keeps of them, running or not. What isn't there is no error.
func (h *Host) Undefine(ctx context.Context, names ...string) error {
	active, err := h.Virsh(ctx, "list", "--name")
	if err != nil {
		return err
	}
	var script []string
	for _, name := range strings.Fields(active) {
		if slices.Contains(names, name) {
			script = append(script, "destroy "+name)
		}
	}
	persistent, err := h.Virsh(ctx, "list", "--all", "--name", "--persistent")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(persistent) {
		if slices.Contains(names, name) {
			script = append(script, "undefine --managed-save --snapshots-metadata --checkpoints-metadata --nvram "+name)
		}
	}
	if len(script) == 0 {
		return nil
	}
	_, err = h.Virsh(ctx, strings.Join(script, "; "))
	return err
}

// Migrate moves a running guest to another host, live, as an administrator does with virsh, and removes its definition
// here. Virsh runs outside of the hosts and reaches both: the hosts' libvirts needn't reach each other.
func (h *Host) Migrate(ctx context.Context, domain string, to *Host, flags ...string) error {
	args := append([]string{
		"--quiet", "--connect", h.SocketURI(), "migrate", "--live", "--persistent", "--undefinesource",
	}, flags...)
	if err := run(ctx, "virsh", append(args, domain, to.SocketURI())...); err != nil {
		return fmt.Errorf("moving %s from %s to %s: %w", domain, h.Name, to.Name, err)
	}
	return nil
}
