# cmake -DOUT=page.cc -DDIR=... -P embed.cmake: the page's files as strings, so that `uroce` needs none of them.
set(text "// Made from tools/explain/page.\n#include \"tools/explain/words/page.h\"\n\nnamespace uroce::explain {\n\n")
foreach(part html css js)
  file(READ ${DIR}/page.${part} content)
  string(APPEND text "const std::string_view kPage_${part} = R\"page(${content})page\";\n")
endforeach()
file(WRITE ${OUT} "${text}\n}  // namespace uroce::explain\n")
