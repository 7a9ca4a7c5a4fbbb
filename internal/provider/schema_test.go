package provider

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// described is what every schema and attribute of the framework has.
type described interface {
	GetDescription() string
	GetMarkdownDescription() string
}

// TestSchemas_everythingIsDescribed walks all schemas: a blank description is a blank in the documentation and in the
// language server.
func TestSchemas_everythingIsDescribed(t *testing.T) {
	t.Parallel()
	p := New("test")
	schemas := map[string]described{}

	var own provider.SchemaResponse
	p.Schema(t.Context(), provider.SchemaRequest{}, &own)
	schemas["provider"] = own.Schema
	for _, newResource := range p.Resources(t.Context()) {
		r := newResource()
		var meta resource.MetadataResponse
		r.Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: TypeName}, &meta)
		var resp resource.SchemaResponse
		r.Schema(t.Context(), resource.SchemaRequest{}, &resp)
		if resp.Diagnostics.HasError() {
			t.Errorf("%s: %v", meta.TypeName, resp.Diagnostics)
		}
		if diags := resp.Schema.ValidateImplementation(t.Context()); diags.HasError() {
			t.Errorf("%s: %v", meta.TypeName, diags)
		}
		schemas[meta.TypeName] = resp.Schema
	}
	for _, newDataSource := range p.DataSources(t.Context()) {
		d := newDataSource()
		var meta datasource.MetadataResponse
		d.Metadata(t.Context(), datasource.MetadataRequest{ProviderTypeName: TypeName}, &meta)
		var resp datasource.SchemaResponse
		d.Schema(t.Context(), datasource.SchemaRequest{}, &resp)
		if diags := resp.Schema.ValidateImplementation(t.Context()); diags.HasError() {
			t.Errorf("%s: %v", meta.TypeName, diags)
		}
		schemas["data."+meta.TypeName] = resp.Schema
	}
	for name, schema := range schemas {
		walkDescriptions(t, name, schema, maxIntroduction)
	}
}

var (
	// code and links are what a sentence may have with a dot in it.
	code  = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)")
	aside = regexp.MustCompile(`(?i)\b(not set:|unset:|default of|new (VMs|disks|networks|pools) have|` +
		`\((new VMs|default)\))`)
	// byDefault is a sentence about a default, the one form of which a reader can tell what leaving the attribute out
	// means: for whatever it is left out, or only for what is new.
	byDefault = regexp.MustCompile(`\bDefault(s\b|:| for new ` +
		`(VMs|disks|interfaces|devices|networks|pools|secrets|volumes):|\b)`)
	// manyDigits is a default that no reader can count, such as an amount of memory in bytes.
	manyDigits = regexp.MustCompile(`\bDefault\b[^:]*: [^.]*\b\d{6,}\b`)
)

// wrongDefault says what is wrong with how a description tells the default; "": nothing. Of an attribute that a host
// has although no configuration declares it, the default is that of new ones.
func wrongDefault(name string, d described, text string) string {
	if found := manyDigits.FindString(text); found != "" {
		return found + " has too many digits: write the amount with its unit"
	}
	text = code.ReplaceAllString(text, "X")
	if found := aside.FindString(text); found != "" {
		return found + " isn't the form of a default"
	}
	at := byDefault.FindAllStringIndex(text, -1)
	if len(at) == 0 {
		return ""
	}
	begin, rest := text[at[0][0]:at[0][1]], text[at[0][1]:]
	flags, ok := d.(interface {
		IsOptional() bool
		IsComputed() bool
	})
	switch {
	case begin == "Defaults":
		return ""
	case len(at) > 1 || !strings.HasSuffix(begin, ":"):
		return "a default is told once, as Default: ... or Default for new ...: ..."
	case strings.Contains(rest, ". "):
		return "a default is told last"
	case !ok:
		return ""
	case flags.IsOptional() && flags.IsComputed() && begin == "Default:" && !hasDefault(name, d):
		return "the default is that of new ones only"
	default:
		return ""
	}
}

// plannedDefaults are the attributes with a default whatever the host has that ModifyPlan sets, which costs less than
// if the framework does.
var plannedDefaults = []string{"virtfleet_virtual_machine.run_strategy"}

// hasDefault says that the attribute gets its default, whatever the host has.
func hasDefault(name string, d described) bool {
	if slices.Contains(plannedDefaults, name) {
		return true
	}
	field := reflect.ValueOf(d).FieldByName("Default")
	return field.IsValid() && !field.IsNil()
}

// A description says one fact per sentence, so that it is read at once, in the reference and where an editor shows it.
// What takes longer is in a guide. These are bytes, with the links.
const (
	maxIntroduction = 1000 // of a resource or data source
	maxDescription  = 300  // of an attribute
)

// TestSchemas_everyResourceHasTimeouts: the limit of each operation can be set, and a new one replaces nothing.
func TestSchemas_everyResourceHasTimeouts(t *testing.T) {
	t.Parallel()
	// An update of a migration asks no host.
	lacks := map[string]string{"virtfleet_migration": "update"}
	for _, newResource := range New("test").Resources(t.Context()) {
		r := newResource()
		var meta resource.MetadataResponse
		r.Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: TypeName}, &meta)
		var resp resource.SchemaResponse
		r.Schema(t.Context(), resource.SchemaRequest{}, &resp)
		limits, ok := resp.Schema.Attributes["timeouts"].(schema.SingleNestedAttribute)
		if !ok {
			t.Errorf("%s has no timeouts", meta.TypeName)
			continue
		}
		for _, operation := range []string{"create", "update", "delete"} {
			limit, ok := limits.Attributes[operation].(schema.StringAttribute)
			switch {
			case !ok && lacks[meta.TypeName] != operation:
				t.Errorf("%s has no timeouts.%s", meta.TypeName, operation)
			case ok && !strings.Contains(limit.Description, "Default: "):
				t.Errorf("%s: timeouts.%s doesn't tell its default: %q", meta.TypeName, operation, limit.Description)
			}
			if len(limit.PlanModifiers)+len(limits.PlanModifiers) > 0 || limits.Computed || limits.Required {
				t.Errorf("%s: timeouts.%s is more than optional", meta.TypeName, operation)
			}
		}
	}
}

// walkDescriptions checks one schema or attribute and everything below it. The attribute types of the provider, data
// sources and resources share no interface that reaches their members, only the names of the fields that hold them.
func walkDescriptions(t *testing.T, at string, d described, most int) {
	t.Helper()
	// The framework's own attributes, such as timeouts, have plain descriptions.
	text := strings.TrimSpace(d.GetMarkdownDescription())
	if text == "" {
		text = strings.TrimSpace(d.GetDescription())
	}
	switch {
	case len(text) > most:
		t.Errorf("%s: the description has %d bytes, at most %d: move details to a guide: %q", at, len(text), most, text)
	case text == "":
		t.Errorf("%s has no description", at)
	case !strings.HasSuffix(text, "."):
		t.Errorf("%s: the description is no sentence: %q", at, text)
	default:
		if wrong := wrongDefault(at, d, text); wrong != "" {
			t.Errorf("%s: %s: %q", at, wrong, text)
		}
	}
	v := reflect.ValueOf(d)
	if v.Kind() != reflect.Struct {
		return
	}
	if nested := v.FieldByName("NestedObject"); nested.IsValid() {
		v = nested
	}
	for _, field := range []string{"Attributes", "Blocks"} {
		members := v.FieldByName(field)
		if !members.IsValid() {
			continue
		}
		for _, key := range members.MapKeys() {
			member, ok := members.MapIndex(key).Interface().(described)
			if !ok {
				t.Errorf("%s.%s: %s has no description", at, key, members.MapIndex(key).Type())
				continue
			}
			if wrong := wrongName(at, key.String(), member); wrong != "" {
				t.Errorf("%s.%s: %s", at, key, wrong)
			}
			walkDescriptions(t, at+"."+key.String(), member, maxDescription)
		}
	}
}
