package domain

import (
	"time"

	"github.com/beevik/etree"
)

// Deleting marks a deletion of the VM that is in progress or was interrupted, and that may have deleted own disks.
type Deleting struct {
	// Owner identifies the run that deletes the VM. Since is when it was about to delete the first disk.
	Owner string
	Since time.Time
}

func readDeleting(vm *etree.Element) *Deleting {
	deleting := ownChild(vm, "deleting")
	if deleting == nil {
		return nil
	}
	// A time that can't be read is the zero time: the mark counts all the same.
	since, _ := time.Parse(time.RFC3339, attr(deleting, "since"))
	return &Deleting{Owner: attr(deleting, "owner"), Since: since}
}

func writeDeleting(vm *etree.Element, d *Deleting) {
	drop(ownChild(vm, "deleting"))
	if d == nil {
		return
	}
	deleting := addOwn(vm, "deleting")
	setAttr(deleting, "owner", d.Owner)
	setAttr(deleting, "since", d.Since.UTC().Format(time.RFC3339))
}
