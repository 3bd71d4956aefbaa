# Writes OUT, a header with the commit of the clone SOURCE, or "" where there is no clone or no git. No time and no name
# of the machine: the same sources give the same programs.
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --tags --always OUTPUT_VARIABLE commit
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(commit "")
  endif()
endif()
file(WRITE ${OUT} "#define UROCE_COMMIT \"${commit}\"\n")
