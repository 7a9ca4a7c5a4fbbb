package domain

import (
	"reflect"
	"regexp"
	"testing"
)

// What names the blocks of a Spec one by one forgets a new one without a word. These tests take the blocks from its
// fields, and their values from full, which has to say something about each.

// observed are the fields that a user can't declare: four by the end of their path, the others by all of it. Medium is
// read back as one of the disks, and has tests of its own.
var observed = regexp.MustCompile(`\.(Target|Backing|Other|Lent)$|` +
	`^\.(UUID|FreeSlots|ConventionalSlots|BusyIOThread|BuiltInWatchdog|FixedVirtualPorts|Buses|Started|Held|Medium|` +
	`Memory\.(Installed|Fixed|Full)|CPU\.Expanded)$`)

// eachAttribute calls f with every attribute below a value that can be declared. f may change it, and has to call
// stored before it looks at the whole; afterwards it is as it was.
func eachAttribute(
	path string, v reflect.Value, stored func(), f func(path string, v reflect.Value, stored func()),
) {
	switch {
	case observed.MatchString(path):
	case v.Kind() == reflect.Struct:
		for field, v := range v.Fields() {
			eachAttribute(path+"."+field.Name, v, stored, f)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		eachAttribute(path, v.Elem(), stored, f)
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			device := reflect.New(v.Type().Elem()).Elem()
			device.Set(v.MapIndex(key))
			eachAttribute(path+"."+key.String(), device, func() { v.SetMapIndex(key, device); stored() }, f)
		}
	default:
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		f(path, v, stored)
		v.Set(before)
		stored()
	}
}

// leastDefinition is the least that a definition says: a machine type, of which only the version can change.
const leastDefinition = `<domain><os><type machine="pc-q35-7.0"/></os></domain>`

// eachBlock calls f with every field of Spec that can be declared: what full says of it, and what is read of
// leastDefinition.
func eachBlock(t *testing.T, f func(name string, block func(*Spec) reflect.Value, declared, nothing reflect.Value)) {
	t.Helper()
	whole, least := full(), parse(t, leastDefinition).Spec()
	for i := range reflect.TypeFor[Spec]().NumField() {
		name := reflect.TypeFor[Spec]().Field(i).Name
		block := func(s *Spec) reflect.Value { return reflect.ValueOf(s).Elem().Field(i) }
		if !observed.MatchString("." + name) {
			f(name, block, block(&whole), block(&least))
		}
	}
}

func TestBlocks_allAreInFull(t *testing.T) {
	t.Parallel()
	eachBlock(t, func(name string, _ func(*Spec) reflect.Value, declared, _ reflect.Value) {
		if declared.IsZero() {
			t.Errorf("%s isn't in full: no test that goes through all blocks would try it", name)
		}
	})
}

func TestBlocks_allAreAppliedAndRead(t *testing.T) {
	t.Parallel()
	eachBlock(t, func(name string, block func(*Spec) reflect.Value, declared, nothing reflect.Value) {
		var want Spec
		block(&want).Set(declared)
		d := parse(t, leastDefinition)
		before := d.Canonical()
		if err := d.Apply(want); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if d.Canonical() == before {
			t.Errorf("%s isn't in Definition.Apply: what is declared of it would never be written", name)
			return
		}
		read := d.Spec()
		if reflect.DeepEqual(block(&read).Interface(), nothing.Interface()) {
			t.Errorf("%s isn't in Definition.Spec: no change of it on the host would be seen", name)
		}
	})
}

// TestBlocks_allComeAndGo: where only one of the two definitions has a block, a restart is known to be needed, and
// which of them departed is known as long as it stays so.
func TestBlocks_allComeAndGo(t *testing.T) {
	t.Parallel()
	eachBlock(t, func(name string, block func(*Spec) reflect.Value, declared, nothing reflect.Value) {
		if declared.Kind() != reflect.Pointer && declared.Kind() != reflect.Map {
			return // It is always there.
		}
		with, without := full(), full()
		block(&without).Set(nothing)
		for what, side := range map[string]struct{ before, after Spec }{"comes": {without, with}, "goes": {with, without}} {
			if len(Pending(side.before, side.after)) == 0 {
				t.Errorf("%s %s and Pending doesn't say so: the guest would do without, and no plan would say so", name, what)
			}
			departed := block(&side.after).Interface()
			for definition, merged := range map[string]Spec{
				"persistent": Merge(&side.after, &side.before, &side.before, nil),
				"live":       Merge(&side.before, &side.after, &side.before, nil),
			} {
				if !reflect.DeepEqual(block(&merged).Interface(), departed) {
					t.Errorf("%s %s in the %s definition and Merge doesn't say so: drift would not be seen", name, what, definition)
				}
			}
			agreed := MergeBase(side.after, side.before, side.before, Spec{}, nil)
			if !reflect.DeepEqual(block(&agreed).Interface(), block(&side.before).Interface()) {
				t.Errorf("%s %s and Agreed forgets what was before: drift would be seen once and forgotten", name, what)
			}
		}
	})
}

// TestValidate_everyTextAndCount: what can't be written in a definition is refused while it is planned, not in the
// middle of an apply.
func TestValidate_everyTextAndCount(t *testing.T) {
	t.Parallel()
	spec := full()
	network("nbd", "export", "host:1")(&spec)
	spec.Disks["file"] = full().Disks["root"]
	disk("file", func(d *Disk) { d.BootOrder = new(3) })(&spec)
	if problems := spec.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	eachAttribute("", reflect.ValueOf(&spec).Elem(), func() {}, func(path string, v reflect.Value, stored func()) {
		switch v.Kind() {
		case reflect.String:
			v.SetString("\x01")
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"\x01"}))
		case reflect.Int:
			v.SetInt(-1)
		default:
			return
		}
		stored()
		if len(spec.Validate()) == 0 {
			t.Errorf("Validate doesn't look at %s", path)
		}
	})
}
