package domain

import (
	"slices"

	"github.com/beevik/etree"
)

const (
	// iothreadCount is the path of the number of I/O threads.
	iothreadCount = "platform.iothreads"
	// iothreadPin is the path of the attribute that pins I/O threads to CPUs of the host.
	iothreadPin = "cpu.iothread_pin"
)

// iothreadsGroup is the number of I/O threads.
var iothreadsGroup = Group{
	Path: "platform",
	Attributes: []Attribute{{
		Name: "iothreads", Kind: Count, Zero: true, Check: between(1, 512), Live: SetIOThreads, Threads: ioThreads,
		Why: "I/O threads are added or removed.",
		RestartRequired: func(vm Spec, _, want string) string {
			if count, _ := number(want); vm.BusyIOThread > count {
				return "A device uses the I/O thread."
			}
			return ""
		},
		Read: func(e *etree.Element) string { return text(child(e, "iothreads")) },
		Write: func(e *etree.Element, value string) error {
			count, _ := number(value) // "" is none
			for _, one := range children(child(e, "iothreadids"), "iothread") {
				if id, _ := number(attr(one, "id")); id > count {
					drop(one)
				}
			}
			dropEmpty(child(e, "iothreadids"), e)
			for _, pin := range children(child(e, "cputune"), "iothreadpin") {
				if id, _ := number(attr(pin, "iothread")); id > count {
					drop(pin)
				}
			}
			for _, one := range children(child(e, "cputune"), "iothreadsched") {
				keepThreads(one, "iothreads", func(id int) bool { return id <= count })
			}
			setChild(e, "iothreads", value, "vcpus", "vcpu", "currentMemory", "memory")
			return nil
		},
		Doc: "Number of I/O threads, which `disks.<key>.iothread` can name; `0`: none.",
	}},
}

// ioThreads returns the numbers of the I/O threads, sorted. Threads that the definition only counts have the lowest
// numbers that are free.
func ioThreads(root *etree.Element) []int64 {
	var all []int64
	for _, one := range children(child(root, "iothreadids"), "iothread") {
		if id, ok := number(attr(one, "id")); ok {
			all = append(all, int64(id))
		}
	}
	count, _ := number(text(child(root, "iothreads")))
	for id := int64(1); len(all) < count; id++ {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// busyIOThread returns the highest number of an I/O thread that a disk or a controller uses, 0 if none does.
func (d *Definition) busyIOThread() int {
	highest := 0
	for _, e := range d.devices("disk", "controller") {
		driver := child(e, "driver")
		used := []string{attr(driver, "iothread")}
		for _, one := range children(child(driver, "iothreads"), "iothread") {
			used = append(used, attr(one, "id"))
		}
		for _, id := range used {
			n, _ := number(id)
			highest = max(highest, n)
		}
	}
	return highest
}
