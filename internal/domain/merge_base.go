package domain

import (
	"maps"
	"reflect"
)

// MergeBase returns the facts on which both definitions agree. Where they differ it returns the fact in before. If
// before is the result of this function for the previous reading, that is the last fact that the definitions agreed on.
// Callers pass the result as prior to Merge, so that the answer of Merge doesn't change while nothing else changes.
// Facts that an update has since asked of both definitions also count as agreed on: those in want, except the ones that
// the update has staged.
func MergeBase(persistent, live, before, want Spec, staged Staged) Spec {
	before, want = before.withMediumDrive(persistent, live), want.withMediumDrive(persistent, live)
	agreed, _ := mergeBase("", reflect.ValueOf(persistent), reflect.ValueOf(alignLive(live, persistent)),
		staged.overlay("", reflect.ValueOf(want), reflect.ValueOf(before))).Interface().(Spec)
	return agreed
}

// withMediumDrive returns s with the drive of the first-boot medium among its disks, if s declares a medium. s has the
// drive as one of the definitions has it: a medium says nothing of its drive.
func (s Spec) withMediumDrive(definitions ...Spec) Spec {
	if s.Medium == nil || s.Medium.isZero() || s.Disks == nil {
		return s
	}
	for _, d := range definitions {
		if drive, ok := d.Disks[MediumKey]; ok {
			s.Disks = maps.Clone(s.Disks)
			s.Disks[MediumKey] = drive
			break
		}
	}
	return s
}

// overlay returns before with the facts that want declares and the update hasn't staged.
func (s Staged) overlay(path string, want, before reflect.Value) reflect.Value {
	_, staged := s[path]
	switch {
	case staged, want.IsZero():
		return before
	case want.Type() == reflect.TypeFor[Values](), want.Type() == reflect.TypeFor[Row]():
		all := reflect.MakeMap(want.Type())
		for _, key := range before.MapKeys() {
			all.SetMapIndex(key, before.MapIndex(key))
		}
		for _, key := range want.MapKeys() { // Values are declared one by one.
			if _, staged := s[join(path, key.String())]; !staged && want.MapIndex(key).String() != Any {
				all.SetMapIndex(key, want.MapIndex(key))
			}
		}
		return all
	case want.Kind() == reflect.Map:
		all := reflect.MakeMap(want.Type())
		for _, key := range want.MapKeys() {
			was := reflect.Zero(want.Type().Elem())
			if known := before.MapIndex(key); known.IsValid() {
				was = known
			}
			all.SetMapIndex(key, s.overlay(join(path, key.String()), want.MapIndex(key), was))
		}
		return all
	case !isLeaf(want.Type()):
		all := reflect.New(want.Type()).Elem()
		for i := range want.NumField() {
			all.Field(i).Set(s.overlay(join(path, step(want.Type().Field(i))), want.Field(i), before.Field(i)))
		}
		return all
	default:
		return want
	}
}

func mergeBase(path string, p, l, before reflect.Value) reflect.Value {
	switch {
	case same(path, p, l):
		return p
	case p.Kind() == reflect.Map && before.IsNil():
		return before // Nothing is known of the map.
	case p.Kind() == reflect.Map:
		agreed := reflect.MakeMap(p.Type())
		for _, key := range p.MapKeys() {
			was := before.MapIndex(key)
			switch inL := l.MapIndex(key); {
			case inL.IsValid() && was.IsValid():
				agreed.SetMapIndex(key, mergeBase(join(path, key.String()), p.MapIndex(key), inL, was))
			case inL.IsValid():
				agreed.SetMapIndex(key, p.MapIndex(key))
			}
		}
		for _, key := range before.MapKeys() {
			// A key that only one definition has is as it was before: present or absent.
			if p.MapIndex(key).IsValid() != l.MapIndex(key).IsValid() {
				agreed.SetMapIndex(key, before.MapIndex(key))
			}
		}
		return agreed
	case !isLeaf(p.Type()):
		agreed := reflect.New(p.Type()).Elem()
		for i := range p.NumField() {
			agreed.Field(i).Set(mergeBase(join(path, step(p.Type().Field(i))), p.Field(i), l.Field(i), before.Field(i)))
		}
		return agreed
	default:
		return before
	}
}
