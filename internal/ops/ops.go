package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/events"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/exporter"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/watch"
)

const usage = `Usage: virtfleet <command> [options]

Without a command this is the plugin that Terraform starts, terraform-provider-virtfleet.

Commands:
  events     print what happens to the virtual machines, while it happens
  exporter   serve metrics of all virtual machines to Prometheus
  version    print the version
  watch      show migrations that run, and how the virtual machines' conditions change

"virtfleet <command> -help" lists the options of a command.
`

// helps are the ways to ask for the list of commands.
var helps = []string{"help", "-h", "-help", "--help"}

// versions are the ways to ask for the version.
var versions = []string{"version", "-v", "-version", "--version"}

// Named reports whether the program was called with a command, to list the commands, or for its version.
func Named(args []string) bool {
	return len(args) > 0 && (!strings.HasPrefix(args[0], "-") || slices.Contains(slices.Concat(helps, versions), args[0]))
}

// Run runs the command that the arguments name, until it is done or ctx ends. The command's output goes to out, other
// messages to messages.
func Run(ctx context.Context, args []string, version string, open config.Opener, out, messages io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(messages, usage)
		return errors.New("there is no command")
	}
	plain := func(word string) bool { return slices.Contains(helps, word) || slices.Contains(versions, word) }
	switch {
	case slices.Contains(helps, args[0]) && len(args) > 2:
		return unexpected(args[2])
	case slices.Contains(helps, args[0]) && len(args) == 2 && !plain(args[1]):
		return Run(ctx, []string{args[1], "-help"}, version, open, out, out)
	case slices.Contains(helps, args[0]):
		fmt.Fprint(out, usage)
		return nil
	case plain(args[0]) && len(args) > 1:
		return unexpected(args[1])
	case plain(args[0]):
		_, err := fmt.Fprintln(out, "virtfleet", version)
		return err
	}
	switch args[0] {
	case "events":
		return events.Run(ctx, args[1:], open, out, messages)
	case "exporter":
		return exporter.Run(ctx, args[1:], version, open, messages)
	case "watch":
		return watch.Run(ctx, args[1:], open, out, messages)
	}
	fmt.Fprint(messages, usage)
	return fmt.Errorf("there is no command %q; \"virtfleet help\" lists them", args[0])
}

// unexpected returns the error of an argument that a command without options doesn't accept.
func unexpected(argument string) error {
	return fmt.Errorf("unexpected argument %q; \"virtfleet help\" lists the commands", argument)
}
