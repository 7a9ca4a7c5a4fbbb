variable "hosts" {
  description = "The libvirt hosts, by name."
  type        = map(string)
}

variable "host" {
  description = "The host that the VM belongs on. Default: any."
  type        = string
  default     = null
}

variable "maintenance" {
  description = "A host to drain. Default: none."
  type        = string
  default     = null
}

variable "private_key_file" {
  description = "The SSH key that logs in on the hosts."
  type        = string
}

variable "known_hosts_file" {
  description = "The hosts' SSH keys."
  type        = string
}

variable "directory" {
  description = "A directory that all hosts have mounted."
  type        = string
}

variable "image" {
  description = "URL of an image that reads cloud-init's medium, and of the file with its checksum."
  type        = object({ url = string, checksum = string })
}

variable "ssh_public_key_file" {
  description = "The key that may log in to the VM."
  type        = string
}

variable "bridge" {
  description = "A bridge that every host has, on a network with DHCP."
  type        = string
}
