package provider

import (
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

// hostKeyCheckings are the values of host_key_checking.
var hostKeyCheckings = []string{ssh.HostKeyStrict, ssh.HostKeyAcceptNew, ssh.HostKeyInsecure}

// sshModel is an ssh block, of the provider or of one host.
type sshModel struct {
	PrivateKeyFile  types.String   `tfsdk:"private_key_file"`
	PrivateKey      types.String   `tfsdk:"private_key"`
	Passphrase      types.String   `tfsdk:"passphrase"`
	CertificateFile types.String   `tfsdk:"certificate_file"`
	Agent           types.Bool     `tfsdk:"agent"`
	Password        types.String   `tfsdk:"password"`
	KnownHostsFile  types.String   `tfsdk:"known_hosts_file"`
	HostKeyChecking types.String   `tfsdk:"host_key_checking"`
	ConfigFile      types.String   `tfsdk:"config_file"`
	JumpHosts       types.List     `tfsdk:"jump_hosts"`
	ConnectTimeout  value.Duration `tfsdk:"connect_timeout"`
}

// sshAttribute returns the attribute for an ssh block. description says whose block it is.
func sshAttribute(description string) schema.SingleNestedAttribute {
	attributes := sshKeyAttributes()
	maps.Copy(attributes, sshConnectionAttributes())
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: description,
		Attributes:          attributes,
	}
}

func sshKeyAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"private_key_file": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Private key file; `~` is the home directory. Default: the identity files of " +
				"`config_file`, otherwise OpenSSH's default files.",
			Validators: []validator.String{
				stringvalidator.LengthAtLeast(1),
				stringvalidator.ConflictsWith(path.MatchRelative().AtParent().AtName("private_key")),
			},
		},
		"private_key": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Private key in PEM or OpenSSH format, instead of `private_key_file`.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"passphrase": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Passphrase of the private key.",
		},
		"certificate_file": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "OpenSSH certificate for the private key.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"agent": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether to try keys of the SSH agent at `SSH_AUTH_SOCK`. With `true`, an agent that " +
				"doesn't answer is an error. Default: yes, if there is an agent.",
		},
		"password": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Password for the methods `password` and `keyboard-interactive`, tried after all keys, if " +
				"`config_file` allows it. Jump hosts never get it.",
		},
	}
}

func sshConnectionAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"known_hosts_file": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "File with known host keys. Default: as in `config_file`, otherwise `~/.ssh/known_hosts` " +
				"and `/etc/ssh/ssh_known_hosts`.",
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"host_key_checking": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Which unknown host keys are accepted. `" + ssh.HostKeyStrict + "`: none. `" +
				ssh.HostKeyAcceptNew + "`: that of a new host, which is recorded. `" +
				ssh.HostKeyInsecure + "`: any, a changed one too, with a warning; such a host gets no password. Default: as in " +
				"`config_file`, where `StrictHostKeyChecking no` means `" + ssh.HostKeyAcceptNew + "`, otherwise `" +
				ssh.HostKeyStrict + "`.",
			Validators: []validator.String{value.Among(hostKeyCheckings...)},
		},
		"config_file": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "File in the format of `ssh_config`, read instead of `~/.ssh/config` and " +
				"`/etc/ssh/ssh_config`. `none` reads no file.",
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"jump_hosts": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Hosts to go through, in this order, each `[user@]host[:port]`. Default: `ProxyJump` in " +
				"`config_file`.",
			Validators: []validator.List{listvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
		},
		"connect_timeout": schema.StringAttribute{
			Optional: true, CustomType: value.DurationType,
			MarkdownDescription: "How long connecting and logging in may take, for each host on the way: a " +
				"[time](guides/values-and-names.md#times) such as `30s`. `0s`: as if unset. Default: as in `config_file`, " +
				"otherwise `10s`.",
		},
	}
}

// sshOver applies an ssh block over other settings: what the block sets takes precedence. A private key replaces
// passphrase and certificate, too, so that those of another key aren't combined with it.
func sshOver(block *sshModel, under ssh.Config) ssh.Config {
	if block == nil {
		return under
	}
	if !block.PrivateKey.IsNull() || !block.PrivateKeyFile.IsNull() {
		under.PrivateKey, under.PrivateKeyFile, under.Passphrase, under.CertificateFile = "", "", "", ""
	}
	set(&under.PrivateKeyFile, block.PrivateKeyFile)
	set(&under.PrivateKey, block.PrivateKey)
	set(&under.Passphrase, block.Passphrase)
	set(&under.CertificateFile, block.CertificateFile)
	set(&under.Password, block.Password)
	set(&under.KnownHostsFile, block.KnownHostsFile)
	set(&under.HostKeyChecking, block.HostKeyChecking)
	set(&under.ConfigFile, block.ConfigFile)
	if agent := value.Bool(block.Agent); agent != nil {
		under.Agent = agent
	}
	if jumps := value.StringList(block.JumpHosts); jumps != nil {
		under.JumpHosts = jumps
	}
	under.ConnectTimeout = block.ConnectTimeout.Or(under.ConnectTimeout)
	return under
}

// sshProblem returns the error for SSH settings of a host that can't be used. It names the attribute that has the
// value. One in the provider's ssh block gives the same error for each host, which Terraform then shows once.
func (m *model) sshProblem(h hostModel, fromURI ssh.Config, source string, at path.Path, err error) diag.Diagnostic {
	problem, about := errors.AsType[*ssh.SettingError](err)
	switch {
	case !about:
	case h.SSH.sets(problem.Setting):
		at = at.AtName("ssh").AtName(problem.Setting)
		source, err = attrpath.Text(at), problem.Err
	case !setInURI(fromURI, problem.Setting) && m.SSH.sets(problem.Setting):
		at = path.Root("ssh").AtName(problem.Setting)
		source, err = attrpath.Text(at), problem.Err
	}
	return diag.NewAttributeErrorDiagnostic(at, "Invalid SSH settings", fmt.Sprintf("%s: %v.", source, err))
}

// sets reports whether the block has a value for a setting that ssh.Config refuses by its name.
func (m *sshModel) sets(setting string) bool {
	if m == nil {
		return false
	}
	value, known := map[string]attr.Value{
		"private_key_file": m.PrivateKeyFile, "private_key": m.PrivateKey, "certificate_file": m.CertificateFile,
		"config_file": m.ConfigFile, "host_key_checking": m.HostKeyChecking, "jump_hosts": m.JumpHosts,
	}[setting]
	return known && !value.IsNull()
}

// setInURI reports whether the query of a host's URI has a value for the setting.
func setInURI(fromURI ssh.Config, setting string) bool {
	return setting == "private_key_file" && fromURI.PrivateKeyFile != "" ||
		setting == "host_key_checking" && fromURI.HostKeyChecking != ""
}

// set sets a string if the attribute is set.
func set(to *string, from types.String) {
	if s := value.String(from); s != nil {
		*to = *s
	}
}

// sshWithURI applies what a host's URI says over the provider's ssh block.
func sshWithURI(uri, under ssh.Config) ssh.Config {
	under.Host, under.Port, under.User, under.HelperURI = uri.Host, uri.Port, uri.User, uri.HelperURI
	if uri.PrivateKeyFile != "" {
		under.PrivateKey, under.PrivateKeyFile, under.CertificateFile = "", uri.PrivateKeyFile, ""
	}
	if uri.KnownHostsFile != "" {
		under.KnownHostsFile = uri.KnownHostsFile
	}
	if uri.HostKeyChecking != "" {
		under.HostKeyChecking = uri.HostKeyChecking
	}
	return under
}
