package guestinfo

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// probe is what to run in the guest.
type probe struct {
	Command []string       `tfsdk:"command"`
	Timeout value.Duration `tfsdk:"timeout"`
}

// probeResult is what became of it.
type probeResult struct {
	Exited      bool   `tfsdk:"exited"`
	ExitStatus  *int64 `tfsdk:"exit_status"`
	Signal      *int64 `tfsdk:"signal"`
	Output      string `tfsdk:"output"`
	ErrorOutput string `tfsdk:"error_output"`
	Truncated   bool   `tfsdk:"truncated"`
}

func probeAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "A command to run in the guest through its agent, at every read: in every plan. It answers " +
			"whether a service is healthy. It may change the guest, and libvirt marks the VM as tainted by it.",
		Attributes: map[string]schema.Attribute{
			"command": schema.ListAttribute{
				Required: true, ElementType: types.StringType,
				MarkdownDescription: "Path of the program and its arguments. No shell is involved.",
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
			},
			"timeout": schema.StringAttribute{
				Optional: true, CustomType: value.DurationType,
				MarkdownDescription: "How long it may run. The agent can't end it: it may run on in the guest. Default: `10s`.",
			},
		},
	}
}

func probeResultAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "What became of the `probe`. Null without one, and when the agent didn't run it, which " +
			"`unavailable` explains.",
		Attributes: map[string]schema.Attribute{
			"exited":       schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it ended in time."},
			"exit_status":  number("What it exited with. Null if it didn't exit by itself."),
			"signal":       number("The signal that ended it. Null if none did."),
			"output":       text("What it wrote to its standard output."),
			"error_output": text("What it wrote to its standard error."),
			"truncated": schema.BoolAttribute{
				Computed: true, MarkdownDescription: "Whether it wrote more than the agent keeps.",
			},
		},
	}
}

func (p *probe) toGuest() *guest.Probe {
	if p == nil {
		return nil
	}
	return &guest.Probe{Command: p.Command, Timeout: p.Timeout.Or(0)}
}

func fromProbe(r *guest.ProbeResult) *probeResult {
	if r == nil {
		return nil
	}
	m := &probeResult{
		Exited: r.Exited, Output: readable(r.Output), ErrorOutput: readable(r.ErrorOutput), Truncated: r.Truncated,
	}
	if r.ExitStatus != nil {
		m.ExitStatus = new(int64(*r.ExitStatus))
	}
	if r.Signal != nil {
		m.Signal = new(int64(*r.Signal))
	}
	return m
}

// readable makes text of bytes: Terraform's strings are UTF-8.
func readable(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }
