package firstboot

import "fmt"

// The names of the fields that a Problem can be about, which are the names of the attributes.
const (
	FieldUserData      = "user_data"
	FieldMetaData      = "meta_data"
	FieldVendorData    = "vendor_data"
	FieldNetworkConfig = "network_config"
	FieldInstanceID    = "instance_id"
	FieldIgnition      = "config"
)

// Problem is what is wrong with one field. It never quotes the field's content, which may be secret.
type Problem struct {
	Field  string // one of the Field values, or the name of a file; "" if it is about all fields together
	Line   int    // the line, from 1; 0 if it is about the whole content
	Reason string // what is wrong and what to do
}

// Error returns a text such as "user_data, line 3: <reason>".
func (p *Problem) Error() string {
	switch {
	case p.Field == "":
		return p.Reason
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.Field, p.Reason)
	}
	return fmt.Sprintf("%s, line %d: %s", p.Field, p.Line, p.Reason)
}
