package virtualmachine

import (
	"path"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

// A disk of a VM can be described as a file, as a volume, or as a disk of its own. Where the configuration changes from
// one to another and means the same file, nothing happens to the VM: the disk is handed over.

// handedOverFile is the file that a disk is, if it was declared in another form before and is the same file. For the id
// of a volume that is so if the file has the volume's name, and for a pool always: the fleet checks both before the
// apply.
func handedOverFile(a, was object) string {
	at := fileOf(was)
	pool, name, _ := strings.Cut(text(a.string("volume")), "/")
	before, beforeVolume := text(was.string("pool")), text(was.string("volume"))
	switch {
	case at == "":
		return ""
	case text(a.string("pool")) != "" && before == "":
		return at
	case pool != "" && name == path.Base(at) && (before == "" || before == pool) && !isVolumeID(beforeVolume):
		return at
	default:
		return ""
	}
}

// fileOf is the file that an observed disk is, "" if it is no file.
func fileOf(a object) string {
	at := text(a.string("path"))
	if at == "" {
		at = text(a.string("file"))
	}
	if volume := text(a.string("volume")); at == "" && !isVolumeID(volume) {
		at = volume
	}
	return volumeSource(at).File
}

// handedOver are the disks that are handed over, by key, and the files that they are.
func handedOver(declared, prior types.Map) map[string]string {
	over, before := map[string]string{}, elements(prior)
	for key, o := range elements(declared) {
		a, was := open(o), open(before[key])
		if a == nil || was == nil {
			continue
		}
		if at := handedOverFile(a, was); at != "" {
			over[key] = at
		}
	}
	return over
}
