package virtualmachine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/vmihailenco/msgpack/v5"
)

// savedState is a state that Terraform saved as JSON.
type savedState map[string]any

func parseSaved(saved []byte) (savedState, error) {
	in := json.NewDecoder(bytes.NewReader(saved))
	in.UseNumber()
	var state savedState
	if err := in.Decode(&state); err != nil {
		return nil, err
	}
	if state == nil {
		return nil, errNull
	}
	return state, nil
}

// encode returns the state as MessagePack, the form on the wire. Terraform upgrades every state in each plan. plugin-go
// first converts a state to values, which takes longer than reading the VM. encode returns an error if the state
// doesn't match the schema. It leaves out attributes that the schema lacks.
func (state savedState) encode() ([]byte, error) {
	var out bytes.Buffer
	err := wireRoot.encodeMap(msgpack.NewEncoder(&out), state)
	return out.Bytes(), err
}

// encoding describes how values of a type are written.
type encoding struct {
	typ tftypes.Type
	// names are the attributes of an object, in order. fields are their encodings.
	names  []string
	fields []*encoding
	// element is the encoding of the elements of a map, a list or a set.
	element *encoding
}

var wireRoot = encodingOf(wireType)

func encodingOf(t tftypes.Type) *encoding {
	e := &encoding{typ: t}
	switch t := t.(type) {
	case tftypes.Object:
		e.names = slices.Sorted(maps.Keys(t.AttributeTypes))
		for _, name := range e.names {
			e.fields = append(e.fields, encodingOf(t.AttributeTypes[name]))
		}
	case tftypes.Map:
		e.element = encodingOf(t.ElementType)
	case tftypes.List:
		e.element = encodingOf(t.ElementType)
	case tftypes.Set:
		e.element = encodingOf(t.ElementType)
	}
	return e
}

var errOtherType = errors.New("the state has a value of another type than the schema")

func (e *encoding) encode(out *msgpack.Encoder, v any) error {
	if v == nil {
		return out.EncodeNil()
	}
	switch v := v.(type) {
	case map[string]any:
		return e.encodeMap(out, v)
	case []any:
		if !e.typ.Is(tftypes.List{}) && !e.typ.Is(tftypes.Set{}) {
			return errOtherType
		}
		err := out.EncodeArrayLen(len(v))
		for _, item := range v {
			err = errors.Join(err, e.element.encode(out, item))
		}
		return err
	case string:
		if !e.typ.Is(tftypes.String) {
			return errOtherType
		}
		return out.EncodeString(v)
	case bool:
		if !e.typ.Is(tftypes.Bool) {
			return errOtherType
		}
		return out.EncodeBool(v)
	case json.Number:
		n, err := v.Int64()
		if err != nil || !e.typ.Is(tftypes.Number) {
			return errOtherType
		}
		return out.EncodeInt(n)
	default:
		return fmt.Errorf("%w: %T", errOtherType, v)
	}
}

func (e *encoding) encodeMap(out *msgpack.Encoder, v map[string]any) error {
	if e.fields == nil {
		if !e.typ.Is(tftypes.Map{}) {
			return errOtherType
		}
		err := out.EncodeMapLen(len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			err = errors.Join(err, out.EncodeString(key), e.element.encode(out, v[key]))
		}
		return err
	}
	err := out.EncodeMapLen(len(e.names))
	for i, name := range e.names {
		err = errors.Join(err, out.EncodeString(name), e.fields[i].encode(out, v[name]))
	}
	return err
}
