// Package fieldtest changes the fields of a value one by one. With it, a test shows that a comparison sees each of
// them: a new field that the comparison doesn't know fails the test. It is for tests only, and imports no other package
// of the provider.
package fieldtest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"
)

// Variants returns copies of a value, in each of which one field is different, by the field's path. Of a list and a map
// each entry is changed and removed; a pointer is removed, too. full must have a value in every field, so that a
// new field can't be forgotten.
func Variants[T any](t testing.TB, full T) map[string]T {
	t.Helper()
	all := map[string]T{}
	whole := reflect.ValueOf(&full).Elem()
	walk(t, "", whole, func(path string, other reflect.Value, put func(reflect.Value) reflect.Value) {
		if _, known := all[path]; known {
			return // Without its pointer, an entry of a map is removed.
		}
		variant, ok := put(other).Interface().(T)
		if !ok {
			t.Fatalf("%s: the variant has another type", path)
		}
		all[path] = variant
	}, func(v reflect.Value) reflect.Value { return v })
	return all
}

// walk calls found with each variant of v. put returns the whole value with another value in the place of v.
func walk(
	t testing.TB, path string, v reflect.Value,
	found func(path string, other reflect.Value, put func(reflect.Value) reflect.Value),
	put func(reflect.Value) reflect.Value,
) {
	t.Helper()
	if v.IsZero() && v.Kind() != reflect.Bool {
		t.Errorf("%s has no value: give it one", path)
		return
	}
	if at, ok := v.Interface().(time.Time); ok {
		found(path, reflect.ValueOf(at.Add(time.Hour)), put)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			walk(t, join(path, v.Type().Field(i).Name), v.Field(i), found, func(other reflect.Value) reflect.Value {
				changed := reflect.New(v.Type()).Elem()
				changed.Set(v)
				changed.Field(i).Set(other)
				return put(changed)
			})
		}
	case reflect.Pointer:
		found(path+" removed", reflect.Zero(v.Type()), put)
		walk(t, path, v.Elem(), found, func(other reflect.Value) reflect.Value {
			changed := reflect.New(v.Type().Elem())
			changed.Elem().Set(other)
			return put(changed)
		})
	case reflect.Slice:
		for i := range v.Len() {
			less := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v.Slice(0, i))
			found(fmt.Sprintf("%s[%d] removed", path, i), reflect.AppendSlice(less, v.Slice(i+1, v.Len())), put)
			walk(t, fmt.Sprintf("%s[%d]", path, i), v.Index(i), found, func(other reflect.Value) reflect.Value {
				changed := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
				changed.Index(i).Set(other)
				return put(changed)
			})
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(maps.Keys(entries(v)), byText) {
			with := func(other reflect.Value) reflect.Value {
				changed := reflect.MakeMap(v.Type())
				for k, value := range entries(v) {
					changed.SetMapIndex(k, value)
				}
				changed.SetMapIndex(key, other)
				return put(changed)
			}
			found(fmt.Sprintf("%s[%v] removed", path, key), reflect.Value{}, with)
			walk(t, fmt.Sprintf("%s[%v]", path, key), v.MapIndex(key), found, with)
		}
	default:
		found(path, another(t, path, v), put)
	}
}

func entries(v reflect.Value) map[reflect.Value]reflect.Value {
	all := map[reflect.Value]reflect.Value{}
	for each := v.MapRange(); each.Next(); {
		all[each.Key()] = each.Value()
	}
	return all
}

func byText(a, b reflect.Value) int {
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	default:
		return 0
	}
}

// another returns another value of the same type.
func another(t testing.TB, path string, v reflect.Value) reflect.Value {
	t.Helper()
	other := reflect.New(v.Type()).Elem()
	switch {
	case v.Kind() == reflect.String:
		other.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		other.SetBool(!v.Bool())
	case v.CanInt():
		other.SetInt(v.Int() + 1)
	case v.CanUint():
		other.SetUint(v.Uint() + 1)
	default:
		t.Errorf("%s has a kind without variants: %v", path, v.Kind())
	}
	return other
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
