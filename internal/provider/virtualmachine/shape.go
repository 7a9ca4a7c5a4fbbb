package virtualmachine

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// shape is a part of the schema, with everything that would otherwise be computed again for each value.
type shape struct {
	// path is the attribute's path, with * for keys. name is its last step.
	path, name    string
	typ           attr.Type
	null, unknown attr.Value
	// computed says that the attribute keeps its value if it isn't declared.
	computed bool
	// fields are the shapes of an object's attributes. element is the shape of the elements of a map or a list.
	fields  map[string]*shape
	element *shape
}

// shapes are the shapes of the resource's attributes, in the order of the model's fields.
var shapes = func() []*shape {
	all := make([]*shape, len(attributeNames))
	for i, name := range attributeNames {
		all[i] = attributeShape(name, vmSchema.Attributes[name])
	}
	return all
}()

func attributeShape(path string, a schema.Attribute) *shape {
	var level attributes
	switch a := a.(type) {
	case schema.SingleNestedAttribute:
		level = a.Attributes
	case schema.MapNestedAttribute:
		level = a.NestedObject.Attributes
	}
	s := shapeOf(path, a.GetType(), level)
	s.computed = a.IsComputed()
	return s
}

// shapeOf returns the shape of a type's values. level are the attributes of its objects.
func shapeOf(path string, t attr.Type, level attributes) *shape {
	name := path[strings.LastIndexByte(path, '.')+1:]
	s := &shape{path: path, name: name, typ: t, null: valueNull(t), unknown: unknownOf(t)}
	switch t := t.(type) {
	case types.ObjectType:
		s.fields = make(map[string]*shape, len(t.AttrTypes))
		for name := range t.AttrTypes {
			s.fields[name] = attributeShape(joinPath(path, name), level[name])
		}
	case types.MapType:
		s.element = shapeOf(path+".*", t.ElemType, level)
	case types.ListType:
		s.element = shapeOf(path+".*", t.ElemType, level)
	case types.SetType:
		s.element = shapeOf(path+".*", t.ElemType, level)
	}
	return s
}
