package domain

import (
	"time"

	"github.com/beevik/etree"
)

// Starting marks a start from saved memory that is in progress or was interrupted. libvirt leaves a guest paused that
// was paused when its memory was saved, and doesn't say that it was to run.
type Starting struct {
	// Owner identifies the run that starts the VM, HostUUID the host on which it does. Since is when the start began.
	Owner, HostUUID string
	Since           time.Time
}

func readStarting(vm *etree.Element) *Starting {
	starting := ownChild(vm, "starting")
	if starting == nil {
		return nil
	}
	// A time that can't be read is the zero time: the mark has lapsed.
	since, _ := time.Parse(time.RFC3339, attr(starting, "since"))
	return &Starting{Owner: attr(starting, "owner"), HostUUID: attr(starting, "host-uuid"), Since: since}
}

func writeStarting(vm *etree.Element, s *Starting) {
	drop(ownChild(vm, "starting"))
	if s == nil {
		return
	}
	starting := addOwn(vm, "starting")
	setAttr(starting, "owner", s.Owner)
	setAttr(starting, "host-uuid", s.HostUUID)
	setAttr(starting, "since", s.Since.UTC().Format(time.RFC3339))
}
