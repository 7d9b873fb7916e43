"""What a finding costs: healthy and actual bandwidth of a job, from its shape and one table of constants."""
