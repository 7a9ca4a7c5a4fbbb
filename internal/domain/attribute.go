package domain

import (
	"cmp"

	"github.com/beevik/etree"
)

// Values are what a VM's groups of attributes say, by attribute path. Declared: a path that is missing is not declared,
// and "" declares that nothing is there. Read back: what is missing isn't there.
type Values map[string]string

// None is the model of a device that isn't there, as libvirt has it for balloons and USB controllers.
const None = "none"

// Any is the model of a device that is declared to be there, whatever it is like.
const Any = "any"

// Auto is what libvirt chooses when the VM starts.
const Auto = "auto"

// AttributeKind is how the value of an attribute is written.
type AttributeKind int

// The kinds of attributes. In Values all are the text that the definition has.
const (
	// Text is any text.
	Text AttributeKind = iota
	// Count is a number from 0.
	Count
	// Switch is yes or no, which On and Off say in the definition's words.
	Switch
	// Flag is an element that is there or isn't: "yes", or "" for no.
	Flag
	// Amount is an amount of memory, in bytes.
	Amount
	// Numbers are numbers, each of an element: "1,2". Place is the element and its attribute: "vlan/tag@id".
	Numbers
	// Words are texts in their order: see ParseWords. They are in more than one place.
	Words
	// Texts are texts by name, each of an element: see ParseTexts. Place is the element and its two attributes:
	// "cputune/vcpupin@vcpu@cpuset".
	Texts
	// Table are rows by key, each of an element: see ParseTable. Place is the element and its key: "cpu/numa/cell@id".
	Table
)

// Attribute is a fact that is one place in the definition and has one effect, as plain data: the definition's reading
// and patching, the schema and the plan all follow from it.
type Attribute struct {
	// Name is the attribute's name in its group; one with dots is nested.
	Name string
	// Place is where the fact is, below the group's element: "@model", "backend@type", "clock/timer[name=rtc]@track", or
	// "backend" for a text.
	Place string
	Kind  AttributeKind
	// Columns are what each row of a Table says, below its element. A row is complete: what isn't declared isn't there.
	Columns []Attribute
	// Key says what is wrong with the key of a row; nil: it is a number. Ignore says that an element is no row.
	Key    func(key string) string
	Ignore func(*etree.Element) bool
	// Values are those that can be declared; nil: any. Kept are those that VMs from elsewhere may have, too.
	Values, Kept []string
	// On and Off are the words of a Switch; "": yes and no.
	On, Off string
	// Unset is the value that declares that nothing is there; "": there is none but "". Zero says that it is 0.
	Unset string
	Zero  bool
	// Reset is what a running VM is told where nothing is declared any more; it means the same as nothing.
	Reset string
	// Normal writes what means the same in the same way; nil: there is one way only.
	Normal func(value string) string
	// Read and Write are for what is more than one place. "" is nothing.
	Read  func(e *etree.Element) string
	Write func(e *etree.Element, value string) error
	// Default is the value of a new device that declares none; Defaults are others, by architecture.
	Default  string
	Defaults map[string]string
	// DefaultDoc says what the default is where Default doesn't: one that differs between VMs, or is libvirt's own.
	DefaultDoc string
	// Filled says that libvirt chooses a value where none is declared. What isn't filled stays null.
	Filled bool
	// Follows is the attribute that gives this one its meaning: another value there makes this one void.
	Follows string
	// Live is the call that changes a running VM; none: it needs a restart. Why says so to the user.
	Live StepKind
	Why  string
	// Cold says why a running VM can't take a change, though it takes others; nil or "": it takes it.
	Cold func(have, want string) string
	// Met says that a running VM has what is declared, though its definition says it in other words.
	Met func(have Spec, want string) bool
	// Echo says that libvirt may put a value of its own into the definition of a running VM.
	Echo bool
	// Capability is where libvirt's domain capabilities list what a host has: "tpm/model". Only groups are checked.
	// Listed is its name there, where that isn't the value itself.
	Capability, Listed string
	// Needs says in words what a host needs for a value: the package that has it.
	Needs map[string]string
	// Recorded says that the definition doesn't say it, but what we record of the VM.
	Recorded bool
	// Since is the version of libvirt that has the attribute: "7.0.0".
	Since string
	// Check says what is wrong with a value; nil or "": nothing.
	Check func(value string) string
	// Doc describes the attribute to users.
	Doc string

	// path is the whole path of a group's attribute; "" for attributes of devices with keys.
	path string
}

// fact is what the attribute's value is known by in Values: those of a VM have whole paths, those of a device names.
func (a Attribute) fact() string { return cmp.Or(a.path, a.Name) }
