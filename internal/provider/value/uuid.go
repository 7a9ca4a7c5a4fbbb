package value

import (
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

var uuids = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// VirtualMachineID returns a validator that refuses anything but the id of a VM.
func VirtualMachineID() validator.String {
	return stringvalidator.RegexMatches(uuids,
		"must be a UUID in lower case, such as virtfleet_virtual_machine.<name>.id")
}
