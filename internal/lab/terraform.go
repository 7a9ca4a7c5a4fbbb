package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
)

const (
	// ProviderAddress is the provider's address in Terraform configurations.
	ProviderAddress = "registry.terraform.io/virtfleet/virtfleet"
	// providerVersion is what a build of a developer calls itself in the mirror. Any version does: nothing constrains it.
	providerVersion = "0.0.1"
)

const cliConfig = `# Terraform takes the provider that was built here, and all others from where it always does.
provider_installation {
  filesystem_mirror {
    path    = "%[1]s"
    include = ["%[2]s"]
  }
  direct {
    exclude = ["%[2]s"]
  }
}
disable_checkpoint = true
`

const providerConfig = `terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
%s  }
  ssh = {
    private_key_file = %q
    known_hosts_file = %q
    config_file      = "none"
  }
}
`

// terraformDir holds what Terraform needs to use the lab: its CLI configuration, a mirror with the provider, and a
// provider block.
func (l *Lab) terraformDir() string { return filepath.Join(l.Dir, "terraform") }

// TerraformCLIConfig is the file for TF_CLI_CONFIG_FILE that makes Terraform use the provider built here.
func (l *Lab) TerraformCLIConfig() string { return filepath.Join(l.terraformDir(), "terraformrc") }

// WriteTerraform writes what Terraform needs to use the lab. With an empty provider the mirror stays as it is.
func (l *Lab) WriteTerraform(provider string) error {
	mirror := filepath.Join(l.terraformDir(), "plugins")
	if provider != "" {
		data, err := os.ReadFile(provider)
		if err != nil {
			return fmt.Errorf("reading the provider's binary: %w", err)
		}
		binary := filepath.Join(mirror, ProviderAddress, providerVersion, runtime.GOOS+"_"+runtime.GOARCH,
			"terraform-provider-virtfleet_v"+providerVersion)
		// A running provider keeps its file: the new one takes its name only.
		if err := os.RemoveAll(binary); err != nil {
			return fmt.Errorf("installing the provider: %w", err)
		}
		if err := writeFile(binary, string(data), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(mirror, 0o755); err != nil {
		return fmt.Errorf("preparing the provider's mirror: %w", err)
	}
	if err := writeFile(l.TerraformCLIConfig(), fmt.Sprintf(cliConfig, mirror, ProviderAddress), 0o644); err != nil {
		return err
	}
	return writeFile(filepath.Join(l.terraformDir(), "main.tf"), l.ProviderConfig(), 0o644)
}

// ProviderConfig is a configuration that names the provider and all hosts of the lab.
func (l *Lab) ProviderConfig() string {
	var hosts strings.Builder
	for _, h := range l.Hosts {
		fmt.Fprintf(&hosts, "    %s = { uri = %q }\n", h.Name, h.URI())
	}
	return fmt.Sprintf(providerConfig, hosts.String(), l.PrivateKeyFile(), l.KnownHostsFile())
}

// Usage says how to use the running lab.
func (l *Lab) Usage(out io.Writer) error {
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "The lab is up in %s.\n\nhost\tURI for the provider\thow QEMU runs\n", l.Dir)
	for _, h := range l.Hosts {
		user := "as root"
		if h.Unprivileged {
			user = "unprivileged, the distribution's configuration"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", h.Name, h.URI(), user)
	}
	fmt.Fprintf(tw, "\nSSH:\tssh -F %s %s\n", l.SSHConfigFile(), l.Hosts[0].Name)
	fmt.Fprintf(tw, "virsh:\tgo run ./internal/lab/cmd/lab virsh %s list --all\n", l.Hosts[0].Name)
	for _, h := range l.Hosts {
		fmt.Fprintf(tw, "or:\tvirsh -c '%s'\n", h.SocketURI())
	}
	fmt.Fprintf(tw, "Terraform:\texport TF_CLI_CONFIG_FILE=%s\n", l.TerraformCLIConfig())
	fmt.Fprintf(tw, "\tcp %s <your directory>, add resources, terraform init && terraform apply\n",
		filepath.Join(l.terraformDir(), "main.tf"))
	fmt.Fprintf(tw, "Guest:\tkernel %s, initrd %s, the same on every host\n", l.KernelPath(), l.InitrdPath())
	fmt.Fprintf(tw, "Networks:\tnetwork default (NAT, per host), bridge %s (spans the hosts, DHCP)\n", LANBridge)
	fmt.Fprintf(tw, "Shared disk:\tgo run ./internal/lab/cmd/lab nbd-create <name> 64M\n")
	return tw.Flush()
}

// Status says of every machine whether it runs and answers.
func (l *Lab) Status(ctx context.Context, out io.Writer) error {
	for _, m := range l.machines() {
		if _, err := fmt.Fprintf(out, "%-6s %-12s %s\n", m.name, m.address, m.status(ctx)); err != nil {
			return err
		}
	}
	return nil
}
