package virtualmachine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// wireType is the type of the resource's values in Terraform's protocol.
var wireType = vmSchema.Type().TerraformType(context.Background())

// decodeWire decodes a value of the resource that isn't null, as Terraform sends it. It does the same as Get of the
// framework's Config and State, at less cost. For each part of the value, Get creates a value of plugin-go, determines
// its type again, and copies the schema at each step of its path.
func decodeWire(ctx context.Context, d *tfprotov6.DynamicValue) (*model, error) {
	if d == nil || len(d.MsgPack) == 0 {
		return nil, errNull
	}
	in := &wireReader{Decoder: msgpack.NewDecoder(bytes.NewReader(d.MsgPack))}
	code, err := in.PeekCode()
	if err != nil || code == msgpcode.Nil || msgpcode.IsExt(code) {
		return nil, errNull
	}
	m := &model{}
	values := reflect.ValueOf(m).Elem()
	n, err := in.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	if n != len(attributeNames) {
		return nil, fmt.Errorf("%w: it has %d attributes", errOtherSchema, n)
	}
	for range n {
		name, err := in.attributeName()
		if err != nil {
			return nil, err
		}
		field, ok := fields[string(name)]
		if !ok {
			return nil, fmt.Errorf("%w: %s", errOtherSchema, name)
		}
		v, err := shapes[field].decode(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", attributeNames[field], err)
		}
		values.Field(field).Set(reflect.ValueOf(v))
	}
	return m, nil
}

// wireReader reads a value of Terraform's protocol.
type wireReader struct {
	*msgpack.Decoder
	name []byte
}

// attributeName reads the name of an attribute, which is valid until the next one is read: a copy of each would be much
// of what a plan allocates.
func (in *wireReader) attributeName() ([]byte, error) {
	n, err := in.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > longestName {
		return nil, fmt.Errorf("%w: the name of an attribute has %d bytes", errOtherSchema, n)
	}
	in.name = slices.Grow(in.name[:0], longestName)[:n]
	return in.name, in.ReadFull(in.name)
}

// longestName is longer than the names of attributes.
const longestName = 256

func (s *shape) decode(ctx context.Context, in *wireReader) (attr.Value, error) {
	code, err := in.PeekCode()
	switch {
	case err != nil:
		return nil, err
	case code == msgpcode.Nil:
		return s.null, in.Skip()
	case msgpcode.IsExt(code):
		return s.unknown, in.Skip()
	}
	switch t := s.typ.(type) {
	case types.ObjectType:
		values, err := s.decodeObject(ctx, in)
		if err != nil {
			return nil, err
		}
		return known(types.ObjectValue(t.AttrTypes, values))
	case types.MapType:
		elements, err := s.decodeMap(ctx, in)
		if err != nil {
			return nil, err
		}
		return known(types.MapValue(t.ElemType, elements))
	case types.ListType:
		elements, err := s.decodeList(ctx, in)
		if err != nil {
			return nil, err
		}
		return known(types.ListValue(t.ElemType, elements))
	case types.SetType:
		elements, err := s.decodeList(ctx, in)
		if err != nil {
			return nil, err
		}
		return known(types.SetValue(t.ElemType, elements))
	case basetypes.StringType:
		text, err := in.DecodeString()
		return types.StringValue(text), err
	case basetypes.BoolType:
		yes, err := in.DecodeBool()
		return types.BoolValue(yes), err
	default:
		return s.decodeOther(ctx, in)
	}
}

// decodeOther decodes a value with plugin-go and the framework.
func (s *shape) decodeOther(ctx context.Context, in *wireReader) (attr.Value, error) {
	wire, err := in.DecodeRaw()
	if err != nil {
		return nil, err
	}
	raw, err := tfprotov6.DynamicValue{MsgPack: wire}.Unmarshal(s.typ.TerraformType(ctx))
	if err != nil {
		return nil, err
	}
	return s.typ.ValueFromTerraform(ctx, raw)
}

func (s *shape) decodeObject(ctx context.Context, in *wireReader) (map[string]attr.Value, error) {
	n, err := in.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	values := make(map[string]attr.Value, len(s.fields))
	for range n {
		name, err := in.attributeName()
		if err != nil {
			return nil, err
		}
		field, ok := s.fields[string(name)]
		if !ok {
			return nil, fmt.Errorf("%w: %s", errOtherSchema, name)
		}
		if values[field.name], err = field.decode(ctx, in); err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return values, nil
}

func (s *shape) decodeMap(ctx context.Context, in *wireReader) (map[string]attr.Value, error) {
	n, err := in.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	elements := make(map[string]attr.Value, n)
	for range n {
		key, err := in.DecodeString()
		if err != nil {
			return nil, err
		}
		if elements[key], err = s.element.decode(ctx, in); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return elements, nil
}

func (s *shape) decodeList(ctx context.Context, in *wireReader) ([]attr.Value, error) {
	n, err := in.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	elements := make([]attr.Value, n)
	for i := range elements {
		if elements[i], err = s.element.decode(ctx, in); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

func known[T attr.Value](v T, diags diag.Diagnostics) (attr.Value, error) {
	if diags.HasError() {
		return nil, errors.New(diags[0].Detail())
	}
	return v, nil
}

var (
	errNull        = errors.New("there is no value to decode")
	errOtherSchema = errors.New("the value is of another schema")
)
