package guest

import (
	"fmt"
	"path/filepath"
)

// ignition is where Debian has Ignition, which other distributions run in their initramfs.
const ignition = "/usr/lib/dracut/modules.d/30ignition/ignition"

// Ignition returns a cpio archive that adds Ignition to a running guest, as /bin/ignition.
func Ignition() ([]byte, error) {
	_, modules, err := findKernel()
	if err != nil {
		return nil, err
	}
	dependencies, err := readDependencies(filepath.Join(modules, "modules.dep"))
	if err != nil {
		return nil, err
	}
	// Through this module a guest reads what QEMU has for it.
	file, ok := dependencies.find("qemu_fw_cfg")
	if !ok {
		return nil, fmt.Errorf("the kernel in %s has no module qemu_fw_cfg", modules)
	}
	a := newArchive()
	if err := addModule(a, filepath.Join(modules, file)); err != nil {
		return nil, err
	}
	// Ignition loads the module by its name.
	a.file("bin/modprobe", 0o755, []byte("#!/bin/sh\nexec insmod \"/modules/$1.ko\"\n"))
	if err := addProgram(a, "bin/ignition", ignition); err != nil {
		return nil, err
	}
	return a.bytes(), nil
}
