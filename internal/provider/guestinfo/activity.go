package guestinfo

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// user is a logged-in user.
type user struct {
	Name      *string `tfsdk:"name"`
	Domain    *string `tfsdk:"domain"`
	LoginTime *string `tfsdk:"login_time"`
}

// load is the guest's load average.
type load struct {
	Load1  *float64 `tfsdk:"load_1m"`
	Load5  *float64 `tfsdk:"load_5m"`
	Load15 *float64 `tfsdk:"load_15m"`
}

// vcpus are the virtual CPUs as the guest sees them.
type vcpus struct {
	Present int64 `tfsdk:"present"`
	Online  int64 `tfsdk:"online"`
}

func usersAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Users who are logged in. Empty if there are none.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name":       value.ReportedString("Name of the user."),
			"domain":     value.ReportedString("Domain of the account, on Windows."),
			"login_time": value.ReportedString("When the user logged in (RFC 3339)."),
		}},
	}
}

func loadAttribute() schema.SingleNestedAttribute {
	average := func(over string) schema.Float64Attribute {
		return schema.Float64Attribute{Computed: true, MarkdownDescription: "Average over " + over + "."}
	}
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Load of the guest. It requires libvirt 11.2 on the host and agent 10.0.",
		Attributes: map[string]schema.Attribute{
			"load_1m": average("a minute"), "load_5m": average("5 minutes"), "load_15m": average("15 minutes"),
		},
	}
}

func vcpusAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "The virtual CPUs, as the guest sees them.",
		Attributes: map[string]schema.Attribute{
			"present": value.ReportedNumber("Number of virtual CPUs that the guest sees."),
			"online":  value.ReportedNumber("Number of virtual CPUs that the guest uses."),
		},
	}
}

func fromUsers(all []libvirt.GuestUser) []user {
	if all == nil {
		return nil
	}
	models := []user{}
	for _, u := range all {
		m := user{Name: value.TextOrNull(u.Name), Domain: value.TextOrNull(u.Domain)}
		if u.LoginTimeMS != nil {
			m.LoginTime = value.TimeOrNull(time.UnixMilli(value.Whole(*u.LoginTimeMS)))
		}
		models = append(models, m)
	}
	return models
}

func fromLoad(l *libvirt.GuestLoad) *load {
	if l == nil {
		return nil
	}
	return &load{Load1: l.Load1, Load5: l.Load5, Load15: l.Load15}
}

func fromVCPUs(v *libvirt.GuestVCPUs) *vcpus {
	if v == nil {
		return nil
	}
	return &vcpus{Present: int64(v.Present), Online: int64(v.Online)}
}
