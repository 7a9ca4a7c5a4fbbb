package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Flags are the options of a command. All commands have -config.
type Flags struct {
	*flag.FlagSet

	// Config is the path for Open.
	Config string
}

// NewFlags returns the options of a command of virtfleet, with -config.
func NewFlags(command string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(command, flag.ContinueOnError)}
	f.StringVar(&f.Config, "config", "", "file with the attributes of the provider block in YAML: hosts, ssh, ... "+
		"Without it, there is one host: that of VIRTFLEET_URI or LIBVIRT_DEFAULT_URI, or this computer")
	return f
}

// Parse reads a command line without further arguments. It lists the options on messages if they are asked for, and
// returns flag.ErrHelp.
func (f *Flags) Parse(args []string, messages io.Writer) error {
	f.SetOutput(io.Discard) // The package would print each error, which the caller prints as well.
	err := f.FlagSet.Parse(args)
	f.SetOutput(messages)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(messages, "Usage: virtfleet %s [options]\n\nOptions:\n", f.Name())
		f.PrintDefaults()
		return err
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		return fmt.Errorf("%w; \"virtfleet %s -help\" lists the options", err, f.Name())
	}
	return nil
}
