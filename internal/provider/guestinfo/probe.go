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

// probe is a command to run in the guest.
type probe struct {
	Command []string       `tfsdk:"command"`
	Timeout value.Duration `tfsdk:"timeout"`
}

// probeResult is the result of the command.
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
		MarkdownDescription: "Command to run in the guest through its agent, to check a service. It runs at every plan. " +
			"libvirt marks the VM as tainted, which has no effect.",
		Attributes: map[string]schema.Attribute{
			"command": schema.ListAttribute{
				Required: true, ElementType: types.StringType,
				MarkdownDescription: "Path of the program and its arguments. No shell is involved.",
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
			},
			"timeout": schema.StringAttribute{
				Optional: true, CustomType: value.DurationType,
				MarkdownDescription: "How long the command may run. After that, `exited` is false; the agent can't end " +
					"the command. Default: `10s`.",
			},
		},
	}
}

func probeResultAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "Result of the `probe`. Null without a probe, or if the agent didn't run it: see " +
			"`unavailable`.",
		Attributes: map[string]schema.Attribute{
			"exited": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the command ended in " +
				"time."},
			"exit_status":  value.ReportedNumber("Exit status of the command. Null if it didn't exit by itself."),
			"signal":       value.ReportedNumber("Signal that ended the command. Null if none did."),
			"output":       value.ReportedString("Standard output of the command."),
			"error_output": value.ReportedString("Standard error of the command."),
			"truncated": schema.BoolAttribute{
				Computed: true, MarkdownDescription: "Whether the command wrote more than the agent keeps.",
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
		Exited: r.Exited, Output: readableText(r.Output), ErrorOutput: readableText(r.ErrorOutput), Truncated: r.Truncated,
	}
	if r.ExitStatus != nil {
		m.ExitStatus = new(int64(*r.ExitStatus))
	}
	if r.Signal != nil {
		m.Signal = new(int64(*r.Signal))
	}
	return m
}

// readableText converts bytes to valid UTF-8, which Terraform's strings require.
func readableText(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }
