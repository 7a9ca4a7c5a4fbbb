package domain

import (
	"fmt"
	"testing"
)

// TestPending_iothreadNumbers: the pins of I/O threads with any numbers aren't taken for a change that a restart makes.
// A thread that goes takes its pin with it.
func TestPending_iothreadNumbers(t *testing.T) {
	t.Parallel()
	vm := func(threads string) Spec {
		return parse(t, `<domain type="qemu"><name>v</name><vcpu>1</vcpu>`+threads+`</domain>`).Spec()
	}
	const pins = `<cputune><iothreadpin iothread="1" cpuset="0"/><iothreadpin iothread="3" cpuset="1"/></cputune>`
	has := vm(`<iothreads>2</iothreads><iothreadids><iothread id="1"/><iothread id="3"/></iothreadids>` + pins)
	if found := Pending(has, has); len(found) > 0 {
		t.Errorf("nothing differs, and it finds %+v", found)
	}
	want := Spec{Values: Values{iothreadCount: "1", iothreadPin: "1=0\n"}}
	if found := Changes(has, want); len(found) != 1 || found[0].Path != iothreadCount {
		t.Errorf("a thread less: %+v", found)
	}
}

// TestIOThreads: the running VM gets the threads of its persistent definition, whichever numbers it has now, before the
// disk that one of them serves.
func TestIOThreads(t *testing.T) {
	t.Parallel()
	vm := func(id, threads string) *Definition {
		return parse(t, `<domain type="qemu"`+id+`><name>v</name><vcpu>1</vcpu>`+threads+
			`<os><type arch="x86_64" machine="pc-i440fx-7.2">hvm</type></os><devices>`+
			`<controller type="pci" index="0" model="pci-root"/></devices></domain>`)
	}
	ids := func(all ...int) string {
		text := fmt.Sprintf("<iothreads>%d</iothreads><iothreadids>", len(all))
		for _, id := range all {
			text += fmt.Sprintf(`<iothread id="%d"/>`, id)
		}
		return text + "</iothreadids>"
	}
	for name, test := range map[string]struct{ has, count, want, was string }{
		"the first":     {"", "2", "1,2", ""},
		"one more":      {"<iothreads>1</iothreads>", "2", "1,2", "1"},
		"one less":      {ids(1, 2), "1", "1", "1,2"},
		"none":          {"<iothreads>2</iothreads>", "0", "", "1,2"},
		"other numbers": {ids(2, 7), "3", "1,2,3", "2,7"},
		"a gap":         {`<iothreads>2</iothreads><iothreadids><iothread id="2"/></iothreadids>`, "3", "1,2,3", "1,2"},
	} {
		live, persistent := vm(` id="1"`, test.has), vm("", test.has)
		want := Spec{
			Values: Values{"platform.iothreads": test.count},
			Disks:  map[string]Disk{"a": {Source: DiskSource{File: "/a"}, Values: Values{"iothread": "1"}}},
		}
		if test.count == "0" {
			want.Disks = nil
		}
		if err := persistent.Apply(want); err != nil {
			t.Fatal(err)
		}
		steps, err := LiveSteps(live, persistent, persistent, want)
		if err != nil || len(steps) != 1+len(want.Disks) || steps[0].Kind != SetIOThreads || steps[0].Value != test.want ||
			steps[0].Was != test.was {
			t.Errorf("%s: %+v, %v", name, steps, err)
		}
	}
}
