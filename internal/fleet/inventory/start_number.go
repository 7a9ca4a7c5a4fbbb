package inventory

import (
	"regexp"
	"strconv"
)

// idInXML finds the number that libvirt gave a VM when it was started there.
var idInXML = regexp.MustCompile(`^<domain [^>]*\bid=['"](\d+)['"]`)

// StartNumber returns the number of the VM's start on its host: a VM that was started later has a higher one, until
// libvirt is restarted while no VM runs, for example because the host was. 0 is unknown.
func (e *Entry) StartNumber() int {
	if match := idInXML.FindStringSubmatch(e.LiveXML); match != nil {
		n, _ := strconv.Atoi(match[1])

		return n
	}

	return 0
}

// StartNumber returns the number of the VM's start on its host, as of the last reading of its definition: in a poll,
// the state may be newer. 0 is unknown, or that the VM was off.
func (vm *VM) StartNumber() int {
	if vm.Entry == nil {
		return 0
	}

	return vm.Entry.StartNumber()
}
