package domain

import (
	"cmp"

	"github.com/beevik/etree"
)

// Values are the facts of a VM's groups of attributes, by attribute path. Declared: a missing path is not declared, and
// "" declares that the VM doesn't have the thing. Read back: a missing path means that the VM doesn't have it.
type Values map[string]string

// None is the model that stands for "no device", as libvirt writes it for balloons and USB controllers.
const None = "none"

// Any is the model that declares that the VM has the device, whatever its model.
const Any = "any"

// Auto says that libvirt chooses the value when the VM starts.
const Auto = "auto"

// AttributeKind says how the value of an attribute is written.
type AttributeKind int

// The kinds of attributes. In Values, each kind is the text that the definition has.
const (
	// Text is any text.
	Text AttributeKind = iota
	// Count is a number from 0.
	Count
	// Switch is yes or no. On and Off are the definition's words for them.
	Switch
	// Flag is an element that the definition has ("yes") or doesn't have ("").
	Flag
	// Amount is an amount of memory, in bytes.
	Amount
	// Numbers is a list of numbers, with one element for each: "1,2". Place is the element and its attribute:
	// "vlan/tag@id".
	Numbers
	// Words is a list of texts in order, see ParseWords. They are in more than one place.
	Words
	// Texts is a map of texts by name, with one element for each, see ParseTexts. Place is the element and its two
	// attributes: "cputune/vcpupin@vcpu@cpuset".
	Texts
	// Switches is a map of switches by name: Texts that are each yes or no.
	Switches
	// Table is a map of rows by key, with one element for each, see ParseTable. Place is the element and its key:
	// "cpu/numa/cell@id".
	Table
)

// Attribute describes, as plain data, a fact that has one place in the definition and one effect. The code that reads
// and patches definitions, the schema and the plan all follow from it.
type Attribute struct {
	// Name is the attribute's name in its group. A name with dots is nested.
	Name string
	// Place is the fact's place below the group's element: "@model", "backend@type", "clock/timer[name=rtc]@track", or
	// "backend" for the element's text.
	Place string
	Kind  AttributeKind
	// Columns are the attributes of each row of a Table, below the row's element. A row is complete: a column that
	// isn't declared isn't there.
	Columns []Attribute
	// Key says what is wrong with the key of a row. If it is nil, keys are numbers. Ignore reports whether an element
	// is not a row.
	Key    func(key string) string
	Ignore func(*etree.Element) bool
	// Values are the values that can be declared; nil: any value. Kept are further values that VMs defined by other
	// tools may have.
	Values, Kept []string
	// On and Off are the definition's words for a Switch; "" means yes and no.
	On, Off string
	// Unset is a value that declares the same as "": that the VM doesn't have the thing. If Unset is "", only ""
	// declares it. Zero says that 0 declares it, too.
	Unset string
	Zero  bool
	// Signed says that a Count may be below 0.
	Signed bool
	// Reset is the value that a running VM is given when the attribute is no longer declared. It means the same as no
	// value.
	Reset string
	// Normal returns the one form of values that have the same meaning. If it is nil, each value has only one form.
	Normal func(value string) string
	// Read and Write are for attributes that are in more than one place. "" means that the attribute isn't there.
	Read  func(e *etree.Element) string
	Write func(e *etree.Element, value string) error
	// Default is the value of a new device that declares none. Defaults are the defaults of other architectures.
	Default  string
	Defaults map[string]string
	// DefaultDoc describes the default to users where Default can't: if it differs between VMs, or is libvirt's own.
	DefaultDoc string
	// Filled says that libvirt chooses a value where none is declared. An attribute that isn't filled stays null.
	Filled bool
	// Follows is the attribute that gives this attribute its meaning: if that attribute changes, this attribute's value
	// becomes void.
	Follows string
	// Renews says that what else the element of Place has belongs to the value: another value gets an element of its own.
	Renews bool
	// Live is the call that changes a running VM; if there is none, the change needs a restart. Why explains this to
	// the user.
	Live StepKind
	Why  string
	// RestartRequired says why this running VM can't change from one value to another, although others can, or although
	// it can take other values; if it is nil or returns "", the VM can take it.
	RestartRequired func(vm Spec, have, want string) string
	// Threads returns the numbers of the threads that an element says the VM has, where the live call sets which there
	// are.
	Threads func(e *etree.Element) []int64
	// Left returns what a VM that has this value has left of it once the VM has the other attributes that are declared;
	// if it is nil, all of it.
	Left func(vm Spec, have string, want Spec) string
	// Met reports whether a running VM already has the declared value, although its definition says it in other words.
	Met func(have Spec, want string) bool
	// Echo says that libvirt may put a value of its own into the definition of a running VM. Spec.Started has one that
	// isn't libvirt's, and that the persistent definition has no longer.
	Echo bool
	// Moves says that the guest changes the value that a running VM has: only the persistent definition says what was
	// declared, and Spec.Started what the VM was started with if that is something else.
	Moves bool
	// Capability is where libvirt's domain capabilities list what a host supports: "tpm/model". It is checked for
	// groups only. Listed is the attribute's name in that list, if the list doesn't have the value itself.
	Capability, Listed string
	// Needs maps a value to what it requires on a host, in words: the package that provides it, or hardware.
	Needs map[string]string
	// Recorded says that the fact is in the VM's metadata, which we record, and not in the definition.
	Recorded bool
	// Since is the version of libvirt that has the attribute: "7.0.0". SinceOf are the versions that have single values.
	Since   string
	SinceOf map[string]string
	// Check says what is wrong with a value; if it is nil or returns "", the value is valid.
	Check func(value string) string
	// Doc describes the attribute to users.
	Doc string

	// path is the whole path of a group's attribute; "" for attributes of devices with keys.
	path string
}

// restartRequired returns what RestartRequired returns.
func (a Attribute) restartRequired(vm Spec, have, want string) string {
	if a.RestartRequired == nil {
		return ""
	}
	return a.RestartRequired(vm, have, want)
}

// fact returns the key of the attribute in Values: the whole path for an attribute of a VM, the name for one of a
// device.
func (a Attribute) fact() string { return cmp.Or(a.path, a.Name) }
